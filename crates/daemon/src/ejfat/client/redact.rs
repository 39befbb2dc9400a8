//! Makes text from a peer safe to show.

/// Maximum number of characters kept of a peer's text.
const MAX_PEER_TEXT_CHARS: usize = 500;

/// Returns `text` on one line, limited in length, and without any of the `secrets`.
pub(super) fn plain(text: &str, secrets: &[&str]) -> String {
    let hidden = secrets
        .iter()
        .filter(|secret| !secret.is_empty())
        .fold(text.to_owned(), |text, secret| text.replace(secret, "…"));
    let line = hidden.chars().map(|c| if c.is_control() { ' ' } else { c });
    line.take(MAX_PEER_TEXT_CHARS).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn a_peer_shows_no_secret_and_fills_no_screen() {
        assert_eq!(plain("token abc\r\n\x1b[2Jis wrong", &["abc", ""]), "token …   [2Jis wrong");
        assert_eq!(plain(&"x".repeat(9000), &[]).len(), 500);
    }
}
