//! What a token lets its holder do: scopes with paths (WLCG profile 1.3, 2.2.1; SciTokens 2.0), compared name by name.
//!
//! | scope | what it allows at its path and below |
//! |---|---|
//! | `storage.read`, `storage.stage`, `read` | reading, listing |
//! | `storage.create` | new files and directories, renaming to a new name; nothing that exists is replaced or removed |
//! | `storage.modify`, `write` | the same, replacing, removing |
//!
//! Any of them also allows to ask for size and digest, and whether the directories above exist; those that create may make these. A path that
//! ends with `/` is one of a directory: no file of that name is read or written.

use super::error::{Profile, TokenError};
use crate::remote::request_path::RequestPath;
use skyhaul::core::hint::Hint;

/// Most scopes of a token.
const MAX_SCOPES: usize = 256;

/// What is done with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Ask whether it exists, for its size and digest.
    Stat,
    /// List it, if it is a directory.
    List,
    /// Read it.
    Read,
    /// Make it, if it does not exist.
    Create,
    /// Replace or remove it.
    Modify,
    /// Make it as a directory.
    MakeDirectory,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Right {
    Read,
    Create,
    Modify,
}

/// A right, and where it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Grant {
    right: Right,
    path: RequestPath,
    /// A file at the path itself is left out.
    is_directory: bool,
}

/// Where a path lies, seen from that of a grant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Relation {
    Above,
    At,
    Below,
    Apart,
}

/// All that a token grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grants {
    all: Vec<Grant>,
    /// Names in the path at which the paths of the issuer begin.
    base_names: usize,
}

impl Grants {
    /// Reads the scopes of a token; their paths begin at `base`. Scopes of other services are left out.
    pub(super) fn parse(scope: &str, profile: Profile, base: &RequestPath) -> Result<Self, TokenError> {
        let mut all = Vec::new();
        for (at, one) in scope.split_ascii_whitespace().enumerate() {
            if at == MAX_SCOPES {
                return Err(TokenError::Scope);
            }
            let (name, path) = one.split_once(':').map_or((one, None), |(name, path)| (name, Some(path)));
            let right = match (profile, name) {
                (Profile::Wlcg, "storage.read" | "storage.stage") | (Profile::SciTokens, "read") => {
                    Right::Read
                }
                (Profile::Wlcg, "storage.create") => Right::Create,
                (Profile::Wlcg, "storage.modify") | (Profile::SciTokens, "write") => Right::Modify,
                _ => continue,
            };
            // The profile: without a path, the token must be rejected.
            let text = path.ok_or(TokenError::Scope)?;
            let path = RequestPath::parse(text).map_err(|_| TokenError::Scope)?;
            let is_directory = text.ends_with('/') && !path.names().is_empty();
            all.push(Grant { right, path: base.join(&path), is_directory });
        }
        Ok(Self { all, base_names: base.names().len() })
    }

    /// Reads scopes of the configuration, as tokens of the WLCG profile have them, with paths from `/`.
    ///
    /// # Errors
    /// One of them is none.
    pub(crate) fn of_scopes(scopes: &[String]) -> Result<Self, String> {
        let parse = |scope: &str| Self::parse(scope, Profile::Wlcg, &RequestPath::default());
        for scope in scopes {
            if !parse(scope).is_ok_and(|one| one.all.len() == 1) {
                return Err(format!(
                    "`{scope}` is no scope{}",
                    Hint("storage.read:/PATH, storage.create:/PATH or storage.modify:/PATH")
                ));
            }
        }
        parse(&scopes.join(" ")).map_err(|_| format!("more than {MAX_SCOPES} scopes"))
    }

    /// Whether nothing is granted.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether `path` may be used so.
    pub(crate) fn allow(&self, how: Use, path: &RequestPath) -> bool {
        self.all.iter().any(|grant| grant.allows(how, path, self.base_names))
    }

    /// Whether everything below a directory may be used so.
    pub(crate) fn allow_below(&self, how: Use, directory: &RequestPath) -> bool {
        let is_covering = |grant: &Grant| {
            let is_inside = matches!(grant.relation_to(directory), Relation::At | Relation::Below);
            is_inside
                && match how {
                    Use::Stat => true,
                    Use::List | Use::Read => grant.right == Right::Read,
                    Use::Create | Use::MakeDirectory => grant.right != Right::Read,
                    Use::Modify => grant.right == Right::Modify,
                }
        };
        self.all.iter().any(is_covering)
    }

    /// Whether one grant that creates covers both: what is renamed stays where its holder may make it.
    pub(crate) fn allow_rename(&self, from: &RequestPath, to: &RequestPath) -> bool {
        let is_covering = |grant: &Grant| {
            [from, to].into_iter().all(|path| grant.allows(Use::Create, path, self.base_names))
        };
        self.all.iter().any(is_covering)
    }
}

impl Grant {
    fn allows(&self, how: Use, path: &RequestPath, base_names: usize) -> bool {
        let relation = self.relation_to(path);
        let is_inside = matches!(relation, Relation::At | Relation::Below);
        let is_content = relation == Relation::Below || (relation == Relation::At && !self.is_directory);
        match how {
            Use::Stat => relation != Relation::Apart,
            Use::List => is_inside && self.right == Right::Read,
            Use::Read => is_content && self.right == Right::Read,
            Use::Create => is_content && self.right != Right::Read,
            Use::Modify => is_content && self.right == Right::Modify,
            Use::MakeDirectory => {
                let is_leading = relation == Relation::Above && path.names().len() >= base_names;
                (is_inside || is_leading) && self.right != Right::Read
            }
        }
    }

    fn relation_to(&self, path: &RequestPath) -> Relation {
        let (own, other) = (self.path.names(), path.names());
        match (other.starts_with(own), own.starts_with(other)) {
            (true, true) => Relation::At,
            (true, false) => Relation::Below,
            (false, true) => Relation::Above,
            (false, false) => Relation::Apart,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Use::{Create, List, MakeDirectory, Modify, Read, Stat};
    use super::*;
    use proptest::prelude::*;

    const USES: [Use; 6] = [Stat, List, Read, Create, Modify, MakeDirectory];

    fn path(text: &str) -> RequestPath {
        RequestPath::parse(text).unwrap()
    }

    fn allowed(scope: &str, of: &str) -> Vec<Use> {
        let grants = Grants::parse(scope, Profile::Wlcg, &path("/exp")).unwrap();
        USES.into_iter().filter(|how| grants.allow(*how, &path(of))).collect()
    }

    #[test]
    fn each_scope_allows_what_the_profile_says_at_its_path_and_below() {
        let (read, create) = (vec![Stat, List, Read], vec![Stat, Create, MakeDirectory]);
        let modify = vec![Stat, Create, Modify, MakeDirectory];
        for (scope, rights) in [
            ("storage.read", &read),
            ("storage.stage", &read),
            ("storage.create", &create),
            ("storage.modify", &modify),
        ] {
            let scope = format!("{scope}:/a/b");
            for (of, expected) in [("/exp/a/b", rights.clone()), ("/exp/a/b/c/d", rights.clone())] {
                assert_eq!(allowed(&scope, of), expected, "{scope} {of}");
            }
            let above = if rights[1] == List { vec![Stat] } else { vec![Stat, MakeDirectory] };
            assert_eq!(allowed(&scope, "/exp/a"), above, "{scope}");
            // What is above all that the issuer has is not its own.
            assert_eq!(allowed(&scope, "/"), [Stat], "{scope}");
            for of in ["/exp/a/bargain", "/exp/a/bx/b", "/a/b", "/exp/b", "/export/a/b", "/recordings/a"] {
                assert_eq!(allowed(&scope, of), [], "{scope} {of}");
            }
        }
        assert_eq!(allowed("storage.read:/", "/exp"), read);
        assert_eq!(allowed("compute.read storage.poll:/ storage.read:/x", "/exp/a"), []);
        assert_eq!(allowed("read:/ write:/", "/exp/a"), [], "SciTokens' names are not those of WLCG");
        assert_eq!(
            allowed("storage.read:/a storage.create:/a/b", "/exp/a/b/c"),
            [Stat, List, Read, Create, MakeDirectory]
        );
    }

    #[test]
    fn a_path_with_a_slash_at_its_end_is_a_directory() {
        assert_eq!(allowed("storage.modify:/a/", "/exp/a"), [Stat, MakeDirectory]);
        assert_eq!(allowed("storage.read:/a/", "/exp/a"), [Stat, List]);
        assert_eq!(allowed("storage.read:/a/", "/exp/a/b"), [Stat, List, Read]);
    }

    #[test]
    fn scopes_of_scitokens_are_read_and_write() {
        let grants =
            Grants::parse("read:/a write:/b storage.read:/c", Profile::SciTokens, &path("/")).unwrap();
        assert!(grants.allow(Read, &path("/a/x")) && !grants.allow(Create, &path("/a/x")));
        assert!(grants.allow(Modify, &path("/b/x")) && !grants.allow(Read, &path("/b/x")));
        assert!(!grants.allow(Stat, &path("/c")));
    }

    #[test]
    fn paths_that_are_none_reject_the_token() {
        for scope in [
            "storage.read",
            "storage.create:",
            "storage.read:a",
            "storage.read:/a/../b",
            "storage.read:/a/%2e%2e/b",
            "storage.read:/a%2fb",
            "storage.modify:/ok storage.read:/%zz",
        ] {
            assert_eq!(Grants::parse(scope, Profile::Wlcg, &path("/")), Err(TokenError::Scope), "{scope}");
        }
        let many = "storage.read:/a ".repeat(MAX_SCOPES + 1);
        assert!(Grants::parse(&many, Profile::Wlcg, &path("/")).is_err());
        // As a request for it, the path of a scope is decoded once.
        assert_eq!(allowed("storage.read:/a%20b", "/exp/a%20b"), [Stat, List, Read]);
        assert_eq!(allowed("storage.read:/%61", "/exp/a"), [Stat, List, Read]);
    }

    #[test]
    fn what_is_allowed_below_a_directory_is_allowed_by_one_grant_above_it() {
        let grants = Grants::parse(
            "storage.create:/a/b storage.read:/c/ storage.modify:/d",
            Profile::Wlcg,
            &path("/"),
        )
        .unwrap();
        for (how, of, expected) in [
            (Create, "/a/b", true),
            (Create, "/a/b/c", true),
            (Modify, "/a/b", false),
            (Create, "/a", false),
            (Create, "/", false),
            (Create, "/c", false),
            (List, "/c", true),
            (Read, "/c/x", true),
            (Read, "/a/b", false),
            (Modify, "/d", true),
            (Modify, "/dd", false),
        ] {
            assert_eq!(grants.allow_below(how, &path(of)), expected, "{how:?} {of}");
        }
    }

    #[test]
    fn a_rename_stays_within_one_grant() {
        let grants = Grants::parse("storage.create:/a storage.create:/b", Profile::Wlcg, &path("/")).unwrap();
        assert!(grants.allow_rename(&path("/a/x"), &path("/a/y/z")));
        assert!(!grants.allow_rename(&path("/a/x"), &path("/b/x")));
    }

    proptest! {
        #[test]
        fn nothing_outside_of_the_base_is_granted(scope in "[a-z.]{0,8}:[/a-c.%2e]{0,12}", of in "(/[a-c]{1,2}){0,4}") {
            let scope = format!("storage.modify{}", &scope[scope.find(':').unwrap_or(0)..]);
            if let Ok(grants) = Grants::parse(&scope, Profile::Wlcg, &path("/a/b")) {
                let of = RequestPath::parse(if of.is_empty() { "/" } else { &of }).unwrap();
                if !of.names().starts_with(path("/a/b").names()) {
                    prop_assert!([List, Read, Create, Modify, MakeDirectory].iter().all(|how| !grants.allow(*how, &of)));
                }
            }
        }
    }
}
