use super::*;
use crate::ejfat::proto::token_permission::{PermissionType, ResourceType};
use crate::ejfat::proto::token_selector::TokenSelector as By;

fn permission(resource_type: ResourceType, id: &str, level: PermissionType) -> TokenPermission {
    TokenPermission {
        resource_type: resource_type.into(),
        resource_id: id.to_owned(),
        permission: level.into(),
    }
}

#[test]
fn tokens_give_no_more_than_they_have_and_go_with_their_parent() {
    let desk = desk();
    let one = reserve(&desk);
    reserve(&desk);
    let create = |caller: &Caller, permissions: Vec<TokenPermission>| {
        desk.create_token(caller, CreateTokenRequest { name: "t".to_owned(), permissions })
    };
    let own = by(&one.token);
    use {PermissionType::*, ResourceType::*};
    let registering = create(&own, vec![permission(Reservation, "1", Register)]).unwrap();
    assert!(registering.ejfat_uri.contains("/lb/1?data="), "{}", registering.ejfat_uri);
    let registrar = by(&registering.token);
    for (wanted, refused) in [
        (permission(Reservation, "1", Update), Kind::Denied),
        (permission(Reservation, "2", ReadOnly), Kind::Denied),
        (permission(LoadBalancer, "1", ReadOnly), Kind::Denied),
        (permission(All, "", ReadOnly), Kind::Denied),
        (permission(Reservation, "", ReadOnly), Kind::Invalid),
        (permission(Reservation, "-1", ReadOnly), Kind::Invalid),
    ] {
        assert_eq!(kind(create(&registrar, vec![wanted])), refused);
    }
    assert_eq!(kind(create(&own, Vec::new())), Kind::Invalid);
    assert_eq!(kind(create(&by(OPERATOR), vec![permission(Session, "77", ReadOnly)])), Kind::Missing);
    let looking = create(&registrar, vec![permission(Reservation, "1", ReadOnly)]).unwrap();
    let onlooker = by(&looking.token);
    status(&desk, &onlooker, "1").unwrap();
    assert_eq!(kind(desk.register(&onlooker, worker("1"))), Kind::Denied);
    let registered = desk.register(&registrar, worker("1")).unwrap();

    let of = |token: &str| Some(TokenSelector { token_selector: Some(By::Token(token.to_owned())) });
    let list = |caller: &Caller, target| {
        desk.list_token_permissions(caller, ListTokenPermissionsRequest { target }).map(|r| r.token.unwrap())
    };
    let details = list(&registrar, None).unwrap();
    assert_eq!(details.permissions, [permission(Reservation, "1", Register)]);
    assert_eq!(details.created_at, "2023-11-14T22:13:20Z");
    assert_eq!(list(&own, of(&looking.token)).unwrap().permissions, [permission(Reservation, "1", ReadOnly)]);
    assert_eq!(kind(list(&onlooker, of(&registering.token))), Kind::Denied);
    assert_eq!(kind(list(&onlooker, of("no such token"))), Kind::Denied);
    assert_eq!(kind(list(&by(OPERATOR), of("no such token"))), Kind::Missing);
    let children =
        desk.list_child_tokens(&registrar, ListChildTokensRequest { target: None }).unwrap().tokens;
    assert_eq!(children.iter().map(|token| token.name.as_str()).collect::<Vec<_>>(), ["t", "session-1"]);

    let revoke = |caller: &Caller, target| desk.revoke_token(caller, RevokeTokenRequest { target });
    assert_eq!(kind(revoke(&onlooker, of(&registering.token))), Kind::Denied);
    assert_eq!(kind(revoke(&by(OPERATOR), None)), Kind::Unfit);
    let id = Some(TokenSelector { token_selector: Some(By::Id(details.id)) });
    revoke(&own, id.clone()).unwrap();
    assert_eq!(kind(revoke(&by(OPERATOR), id)), Kind::Missing);
    for gone in [&registering.token, &looking.token, &registered.token] {
        assert_eq!(kind(status(&desk, &by(gone), "1")), Kind::Unauthenticated);
    }
    status(&desk, &own, "1").unwrap();
}

/// A worker that someone else removes is told so, and does not take this for a restart; one that leaves is told
/// nothing.
#[test]
fn a_worker_that_another_removes_is_told() {
    let desk = desk();
    let own = by(&reserve(&desk).token);
    let leave = |caller: &Caller, worker: &RegisterReply| {
        let request = DeregisterRequest { session_id: worker.session_id.clone(), ..Default::default() };
        desk.deregister(caller, request).unwrap();
        kind(desk.send_state(&by(&worker.token), ready(worker)))
    };
    let [removed, left] = [1, 2].map(|_| desk.register(&own, worker("1")).unwrap());
    assert_eq!(leave(&own, &removed), Kind::Ended);
    assert_eq!(leave(&by(&left.token), &left), Kind::Unauthenticated);
    assert_eq!(desk.known(Some(&removed.token)).unwrap_err().kind, Kind::Ended, "at the door, too");
    assert!(desk.known(Some(&left.token)).is_err_and(|refusal| refusal.kind == Kind::Unauthenticated));
    // All workers have to register again.
    let again = desk.register(&own, worker("1")).unwrap();
    let reset = ResetLoadBalancerRequest { lb_id: "1".to_owned(), workers: true, ..Default::default() };
    desk.reset_load_balancer(&own, reset).unwrap();
    assert_eq!(kind(desk.send_state(&by(&again.token), ready(&again))), Kind::Unauthenticated);
}

#[test]
fn number_zero_is_the_callers_own_token() {
    let desk = desk();
    let own = by(&reserve(&desk).token);
    let of = |target| desk.list_token_permissions(&own, ListTokenPermissionsRequest { target }).unwrap();
    assert_eq!(of(Some(TokenSelector { token_selector: Some(By::Id(0)) })), of(None));
}
