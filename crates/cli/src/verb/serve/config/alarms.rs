//! `[station.alarms]`: to whom alarms are sent.

use super::key::Key;
use anyhow::{Result, ensure};
use skyhaul::core::hint::Hint;
use skyhaul::core::station::is_scan_name;
use skyhaul::io::quantity::Span;
use skyhaul_daemon::station::{AlarmReceiver, AlarmRoute, AlarmSetup, MAX_RECEIVERS};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Time of an attempt, unless the configuration says otherwise.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// Words of a program, addresses, and names of alarms.
const MAX_WORDS: usize = 64;
/// The program that takes mail.
const SENDMAIL: [&str; 3] = ["/usr/sbin/sendmail", "-t", "-i"];

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

impl Key<'_> {
    pub(super) fn alarms(&self) -> Result<AlarmSetup> {
        let mut setup = AlarmSetup::default();
        for entry in self.entries()? {
            match entry.key {
                "hold" => setup.hold = entry.span(SECOND..=HOUR, "1s to 1h")?,
                "retry_for" => setup.retry_for = entry.span(SECOND..=HOUR * 168, "1s to 168h")?,
                "receiver" => {
                    for one in entry.list(MAX_RECEIVERS)? {
                        let one = entry.at(one);
                        let receiver = one.receiver()?;
                        let is_new = setup.receivers.iter().all(|other| other.name != receiver.name);
                        ensure!(is_new, one.wrong(format_args!("two receivers are named {}", receiver.name)));
                        setup.receivers.push(receiver);
                    }
                }
                _ => {
                    let hint = Hint("the keys of alarms are hold, receiver, retry_for");
                    return Err(entry.wrong(format_args!("unknown key{hint}")));
                }
            }
        }
        Ok(setup)
    }

    fn receiver(&self) -> Result<AlarmReceiver> {
        let (mut command, mut mail, mut sendmail, mut webhook) = (None, None, None, None);
        let (mut token_file, mut secret_file, mut authorities) = (None, None, None);
        let mut receiver = AlarmReceiver {
            name: String::new(),
            route: AlarmRoute::Command(Vec::new()),
            timeout: DEFAULT_TIMEOUT,
            errors_only: false,
            only: Vec::new(),
        };
        for entry in self.entries()? {
            match entry.key {
                "name" => entry.string()?.clone_into(&mut receiver.name),
                "command" => command = Some(entry.words()?),
                "mail" => mail = Some(entry.words()?),
                "sendmail" => sendmail = Some(entry.words()?),
                "webhook" => webhook = Some(entry.string()?.to_owned()),
                "token_file" => token_file = Some(entry.string()?.into()),
                "secret_file" => secret_file = Some(entry.string()?.into()),
                "authorities" => authorities = Some(entry.string()?.into()),
                "timeout" => receiver.timeout = entry.span(SECOND..=SECOND * 300, "1s to 5min")?,
                "level" => {
                    receiver.errors_only = match entry.string()? {
                        "error" => true,
                        "warning" => false,
                        _ => return Err(entry.wrong("expected warning or error")),
                    };
                }
                "only" => receiver.only = entry.words()?,
                _ => {
                    let hint = Hint(
                        "the keys of a receiver are authorities, command, level, mail, name, only, secret_file, \
                         sendmail, timeout, token_file, webhook",
                    );
                    return Err(entry.wrong(format_args!("unknown key{hint}")));
                }
            }
        }
        let is_named = is_scan_name(&receiver.name);
        ensure!(is_named, self.wrong("a receiver needs name: letters, digits and ._+-"));
        let is_web = token_file.is_some() || secret_file.is_some() || authorities.is_some();
        let is_mail = sendmail.is_some();
        receiver.route = match (command, mail, webhook) {
            (Some(words), None, None) if !is_web && !is_mail => AlarmRoute::Command(words),
            (None, Some(to), None) if !is_web => {
                let usual = || SENDMAIL.map(str::to_owned).to_vec();
                AlarmRoute::Mail { to, sendmail: sendmail.unwrap_or_else(usual) }
            }
            (None, None, Some(url)) if !is_mail => {
                AlarmRoute::Webhook { url, token_file, secret_file, authorities }
            }
            _ => {
                let hint = Hint(
                    "give each one of command, mail (with sendmail), webhook (with token_file, secret_file, authorities)",
                );
                return Err(self.wrong(format_args!(
                    "receiver {} has keys of several kinds, or none{hint}",
                    receiver.name
                )));
            }
        };
        receiver.check().map_err(|why| self.wrong(format_args!("receiver {}: {why}", receiver.name)))?;
        Ok(receiver)
    }

    /// A list of texts.
    fn words(&self) -> Result<Vec<String>> {
        let list = self.list(MAX_WORDS)?;
        let words = list.iter().map(|word| self.at(word).string().map(str::to_owned));
        let words = words.collect::<Result<Vec<String>>>()?;
        let is_clean = words.iter().all(|word| !word.contains('\0'));
        ensure!(is_clean && !words.is_empty(), self.wrong("expected a list of texts such as [\"a\"]"));
        Ok(words)
    }

    fn span(&self, within: RangeInclusive<Duration>, shown: &str) -> Result<Duration> {
        let time = self.parse::<Span>()?.duration();
        ensure!(within.contains(&time), self.wrong(format_args!("expected {shown}")));
        Ok(time)
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use skyhaul_daemon::station::{AlarmRoute, AlarmSetup};
    use std::time::Duration;

    fn with(keys: &str) -> Result<AlarmSetup, String> {
        let station = "[station]\n[[station.disk]]\npath = '/d'\n[[station.input]]\nname = 'a'\n\
                       listen = ['udp://127.0.0.1:1']\n[station.alarms]\n";
        let parsed = parse(&format!("{station}{keys}"));
        parsed.map(|config| config.setup.alarms).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn receivers_are_read() {
        let keys = "hold = '30s'\nretry_for = '2h'\n\
                    [[station.alarms.receiver]]\nname = 'page'\ncommand = ['/bin/page', '--all']\nlevel = 'error'\ntimeout = '5s'\n\
                    [[station.alarms.receiver]]\nname = 'mail'\nmail = ['op@obs.example']\nonly = ['space', 'disk_full']\n\
                    [[station.alarms.receiver]]\nname = 'web'\nwebhook = 'https://h.example/x?k=1'\ntoken_file = '/t'\nsecret_file = '/s'";
        let setup = with(keys).unwrap();
        assert_eq!((setup.hold, setup.retry_for), (Duration::from_secs(30), Duration::from_secs(7200)));
        let [page, mail, web] = &setup.receivers[..] else { panic!("three") };
        assert_eq!(page.route, AlarmRoute::Command(vec!["/bin/page".into(), "--all".into()]));
        assert!(page.errors_only && page.timeout == Duration::from_secs(5) && !mail.errors_only);
        assert_eq!(mail.only, ["space", "disk_full"]);
        assert!(format!("{:?}", mail.route).contains("/usr/sbin/sendmail"));
        assert!(matches!(
            &web.route,
            AlarmRoute::Webhook { token_file: Some(_), secret_file: Some(_), authorities: None, .. }
        ));
        assert_eq!(with("").unwrap(), AlarmSetup::default());
    }

    #[test]
    fn mistakes_are_named() {
        for (keys, why) in [
            ("hold = '0s'", "hold: "),
            ("holds = '1s'", "the keys of alarms are hold, receiver, retry_for"),
            ("[[station.alarms.receiver]]\ncommand = ['a']", "a receiver needs name"),
            ("[[station.alarms.receiver]]\nname = 'a'", "keys of several kinds, or none"),
            (
                "[[station.alarms.receiver]]\nname = 'a'\ncommand = ['a']\nmail = ['a@b']",
                "keys of several kinds",
            ),
            (
                "[[station.alarms.receiver]]\nname = 'a'\ncommand = ['a']\ntoken_file = 't'",
                "keys of several kinds",
            ),
            ("[[station.alarms.receiver]]\nname = 'a'\ncommand = 'a'", "command: expected a list"),
            ("[[station.alarms.receiver]]\nname = 'a'\ncommand = ['']", "command has no program"),
            ("[[station.alarms.receiver]]\nname = 'a'\nmail = ['-oQ/tmp@b']", "is no address"),
            ("[[station.alarms.receiver]]\nname = 'a'\nmail = [\"a@b\\nBcc: c@d\"]", "is no address"),
            ("[[station.alarms.receiver]]\nname = 'a'\nwebhook = 'ftp://h/'", "the scheme must be https"),
            ("[[station.alarms.receiver]]\nname = 'a'\nwebhook = 'https://u:p@h/'", "it has a user name"),
            (
                "[[station.alarms.receiver]]\nname = 'a'\nwebhook = 'http://h/'\ntoken_file = 't'",
                "in plain text; hint: use https",
            ),
            (
                "[[station.alarms.receiver]]\nname = 'a'\ncommand = ['a']\nlevel = 'bad'",
                "expected warning or error",
            ),
            (
                "[[station.alarms.receiver]]\nname = 'a'\ncommand = ['a']\n[[station.alarms.receiver]]\nname = 'a'\ncommand = ['a']",
                "two receivers are named a",
            ),
        ] {
            let error = with(keys).unwrap_err();
            assert!(error.contains(why), "{keys}: {error}");
        }
    }
}
