//! Calls about tokens.

use super::super::proto::token_permission::{PermissionType, ResourceType};
use super::super::proto::token_selector::TokenSelector as By;
use super::super::proto::{
    CreateTokenReply, CreateTokenRequest, ListChildTokensReply, ListChildTokensRequest,
    ListTokenPermissionsReply, ListTokenPermissionsRequest, RevokeTokenReply, RevokeTokenRequest,
    TokenDetails, TokenPermission, TokenSelector,
};
use super::super::registry::token::{Level, Permission, Resource, Token};
use super::super::registry::{NewToken, OPERATOR};
use super::reservations::timestamp;
use super::{Api, Caller, Refusal, RefusalKind, State, cut, denied, name, of_server};
use skyhaul::auth::{TokenHash, new_token};
use skyhaul::core::hint::Hint;

impl Api {
    /// Creates a token with no more permissions than the caller's.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn create_token(
        &self,
        caller: &Caller,
        request: CreateTokenRequest,
    ) -> Result<CreateTokenReply, Refusal> {
        let token = new_token().map_err(|error| Refusal::new(RefusalKind::Unavailable, error.to_string()))?;
        let permissions = self.change(|state| {
            let parent = state.token(caller)?;
            let most = state.registry.limits().permissions;
            if request.permissions.is_empty() || request.permissions.len() > most {
                return Err(Refusal::invalid(format!("a token has 1 to {most} permissions")));
            }
            let permissions: Vec<Permission> =
                request.permissions.iter().map(permission).collect::<Result<_, _>>()?;
            for &Permission { resource, level } in &permissions {
                if !state.registry.may(parent, resource, level) {
                    return Err(denied(resource, level));
                }
                state.exists(resource)?;
            }
            let called = name(&request.name, state.registry.limits().name)?;
            let new =
                NewToken { parent: parent.id, hash: TokenHash::of(&token), name: called, now: caller.now };
            Ok(state.registry.create_token(&new, &permissions)?.map(move |_| permissions))
        })?;
        let state = self.locked();
        // For a single reservation, the URI contains everything that a sender or worker needs.
        let ejfat_uri = match permissions[..] {
            [Permission { resource: Resource::Reservation(id), .. }] => state.uri(caller, id, &token)?,
            _ => of_server(&caller.server, &token),
        };
        Ok(CreateTokenReply { token, ejfat_uri })
    }

    /// Returns the permissions of a token; by default of the caller's own.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn list_token_permissions(
        &self,
        caller: &Caller,
        request: ListTokenPermissionsRequest,
    ) -> Result<ListTokenPermissionsReply, Refusal> {
        let state = self.locked();
        let token = state.target(caller, request.target)?;
        Ok(ListTokenPermissionsReply { token: Some(details(token)) })
    }

    /// Returns the tokens created by a token.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn list_child_tokens(
        &self,
        caller: &Caller,
        request: ListChildTokensRequest,
    ) -> Result<ListChildTokensReply, Refusal> {
        let state = self.locked();
        let token = state.target(caller, request.target)?;
        Ok(ListChildTokensReply { tokens: state.registry.tokens().children(token.id).map(details).collect() })
    }

    /// Revokes a token and all tokens derived from it.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn revoke_token(
        &self,
        caller: &Caller,
        request: RevokeTokenRequest,
    ) -> Result<RevokeTokenReply, Refusal> {
        self.change(|state| {
            let id = state.target(caller, request.target)?.id;
            if id == OPERATOR {
                let text = format!(
                    "the operator's token cannot be revoked{}",
                    Hint("replace it in its file and restart")
                );
                return Err(Refusal::new(RefusalKind::Unfit, text));
            }
            Ok(state.registry.revoke(id))
        })?;
        Ok(RevokeTokenReply {})
    }
}

impl State {
    /// The requested token: the caller's own, one derived from it, or any for callers that may change everything.
    fn target(&self, caller: &Caller, target: Option<TokenSelector>) -> Result<&Token, Refusal> {
        let own = self.token(caller)?;
        let tokens = self.registry.tokens();
        let found = match target.and_then(|target| target.token_selector) {
            // As the protocol defines.
            None | Some(By::Id(0)) => Some(own),
            Some(By::Id(id)) => tokens.get(i64::from(id)),
            Some(By::Token(text)) => tokens.find(&text),
        };
        let all = self.registry.may(own, Resource::All, Level::Update);
        match found {
            Some(token) if all || tokens.comes_from(token.id, own.id) => Ok(token),
            None if all => Err(Refusal::new(
                RefusalKind::Missing,
                format!("unknown token{}", Hint("it may have been revoked")),
            )),
            // Do not reveal whether the token exists.
            _ => Err(Refusal::new(RefusalKind::Denied, "the token is neither this one nor derived from it")),
        }
    }

    fn exists(&self, resource: Resource) -> Result<(), Refusal> {
        let (is, what, id) = match resource {
            Resource::All => return Ok(()),
            Resource::Instance(id) => {
                ((1..=self.registry.limits().instances).contains(&id), "load balancer", id)
            }
            Resource::Reservation(id) => (self.registry.reservation(id).is_some(), "reservation", id),
            Resource::Session(id) => (self.registry.session(id).is_some(), "session", id),
        };
        if is { Ok(()) } else { Err(Refusal::new(RefusalKind::Missing, format!("there is no {what} {id}"))) }
    }
}

fn permission(wanted: &TokenPermission) -> Result<Permission, Refusal> {
    let number = || {
        let id = wanted.resource_id.parse::<i64>().ok().filter(|id| *id > 0);
        id.ok_or_else(|| {
            Refusal::invalid(format!(
                "invalid resource number `{}`{}",
                cut(&wanted.resource_id),
                Hint("a number such as 1")
            ))
        })
    };
    let kind = ResourceType::try_from(wanted.resource_type);
    let kind =
        kind.map_err(|_| Refusal::invalid(format!("unknown resource type {}", wanted.resource_type)))?;
    let resource = match kind {
        ResourceType::All => Resource::All,
        ResourceType::LoadBalancer => Resource::Instance(number()?),
        ResourceType::Reservation => Resource::Reservation(number()?),
        ResourceType::Session => Resource::Session(number()?),
    };
    let level = usize::try_from(wanted.permission).ok().and_then(|level| Level::ALL.get(level));
    let level = level.ok_or_else(|| Refusal::invalid(format!("unknown permission {}", wanted.permission)))?;
    Ok(Permission { resource, level: *level })
}

fn details(token: &Token) -> TokenDetails {
    let permission = |permission: &Permission| {
        let (kind, id) = match permission.resource {
            Resource::All => (ResourceType::All, String::new()),
            Resource::Instance(id) => (ResourceType::LoadBalancer, id.to_string()),
            Resource::Reservation(id) => (ResourceType::Reservation, id.to_string()),
            Resource::Session(id) => (ResourceType::Session, id.to_string()),
        };
        let level = match permission.level {
            Level::ReadOnly => PermissionType::ReadOnly,
            Level::Register => PermissionType::Register,
            Level::Reserve => PermissionType::Reserve,
            Level::Update => PermissionType::Update,
        };
        TokenPermission { resource_type: kind.into(), resource_id: id, permission: level.into() }
    };
    TokenDetails {
        name: token.name.clone(),
        permissions: token.permissions.iter().map(permission).collect(),
        created_at: timestamp(token.created).to_string(),
        id: u32::try_from(token.id).unwrap_or(u32::MAX),
    }
}
