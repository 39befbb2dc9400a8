//! What a number may be: told with the reason, and before anything is opened.

use clap::builder::TypedValueParser;

/// Receiving threads for one address. More than a processor each do not receive faster, and each has a socket buffer.
pub(super) const RECEIVE_THREADS: u64 = 256;
/// Senders to one destination, each a thread and a socket.
pub(super) const SENDERS: u64 = 1024;
/// Blocks under construction for each stream: as many as the largest memory has by default, many times over.
pub(super) const WINDOW: u64 = 4096;
/// Sender and receiver pairs of a benchmark, each two threads and 64 heaps of memory.
pub(super) const PAIRS: u64 = 256;
/// Directories that stand for disks in the demonstration.
pub(super) const DISKS: u64 = 64;

/// A number from 1 to `most`; what is right otherwise is `hint`.
pub(super) fn up_to<T>(most: u64, hint: &'static str) -> impl TypedValueParser<Value = T>
where
    T: TryFrom<u64> + Clone + Send + Sync + 'static,
{
    from_to(1, most, hint)
}

/// A number from 1 on.
pub(super) fn at_least_one<T>(hint: &'static str) -> impl TypedValueParser<Value = T>
where
    T: TryFrom<u64> + Clone + Send + Sync + 'static,
{
    from_to(1, u64::MAX, hint)
}

/// A number from `least` to `most`.
pub(super) fn from_to<T>(least: u64, most: u64, hint: &'static str) -> impl TypedValueParser<Value = T>
where
    T: TryFrom<u64> + Clone + Send + Sync + 'static,
{
    let range = match most {
        u64::MAX => format!("a whole number from {least} on"),
        _ => format!("a whole number from {least} to {most}"),
    };
    move |text: &str| {
        let number = text.parse::<u64>().ok().filter(|n| (least..=most).contains(n));
        number.and_then(|n| T::try_from(n).ok()).ok_or_else(|| format!("it must be {range}\nhint: {hint}"))
    }
}

/// A quantity that is more than nothing.
pub(super) fn some<T>(hint: &'static str) -> impl TypedValueParser<Value = T>
where
    T: std::str::FromStr<Err: std::fmt::Display> + Default + PartialEq + Clone + Send + Sync + 'static,
{
    move |text: &str| match text.parse::<T>() {
        Ok(value) if value == T::default() => Err(format!("nothing at all is not possible\nhint: {hint}")),
        Ok(value) => Ok(value),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use crate::args::Cli;
    use clap::Parser;

    #[test]
    fn numbers_without_sense_are_refused_with_a_hint() {
        for (line, hint) in [
            ("receive --listen udp://:0 --receive-threads 257", "from 1 to 256"),
            ("receive --listen udp://:0 --receive-threads 0", "from 1 to 256"),
            ("receive --listen udp://:0 --receive-threads -1", "from 1 to 256"),
            ("receive --listen udp://:0 --receive-threads 99999999999999999999", "from 1 to 256"),
            ("receive --listen udp://:0 --window 99999", "from 1 to 4096"),
            ("receive --listen udp://:0 --max-streams 0", "from 1"),
            ("receive --listen udp://:0 --strip 99999", "from 0 to 65507"),
            ("receive --listen udp://:0 --frame-rate 0", "from 1 to 16777216"),
            ("receive --listen udp://:0 --bytes 0", "nothing at all"),
            ("receive --listen udp://:0 --heaps 0", "from 1"),
            ("receive --listen udp://:0 --heap-window 0", "from 1"),
            ("receive --listen udp://:0 --heap-timeout 0s", "nothing at all"),
            ("record --disk d --scan s --listen udp://:0 --chunk 0", "nothing at all"),
            ("send --to udp://10.0.0.1:1 --senders 5000", "from 1 to 1024"),
            ("send --to udp://10.0.0.1:1 --input f --loop 0", "from 1"),
            ("send --to udp://10.0.0.1:1 --heap-step 0", "from 1"),
            ("send --to udp://10.0.0.1:1 --items 0", "from 1"),
            ("inspect f -n 0", "from 1"),
            ("demo --disks 1000", "from 1 to 64"),
            ("demo --rate 0bps", "nothing at all"),
            ("demo --duration 0s", "nothing at all"),
            ("bench --rounds 0", "from 1"),
            ("bench --time 0s", "nothing at all"),
            ("bench --rate 0bps", "nothing at all"),
            ("bench --rates 0bps", "nothing at all"),
            ("bench --bytes 0", "nothing at all"),
            ("bench --memory 0", "nothing at all"),
            ("bench --pairs 1000", "from 1 to 256"),
            ("bench --heap-size 0", "nothing at all"),
        ] {
            let words = ["skyhaul"].into_iter().chain(line.split(' '));
            let parsed = crate::args::parse(words, &crate::args::Places::default());
            let said = parsed.map(|_| ()).unwrap_err().to_string();
            assert!(said.contains(hint) && said.contains("hint: "), "{line}: {said}");
        }
    }

    #[test]
    fn numbers_with_sense_are_taken() {
        for line in [
            "receive --listen udp://:0 --receive-threads 256 --window 4096 --strip 0 --max-streams 99999",
            "send --to udp://10.0.0.1:1 --senders 1024 --rate 0bps --heap-size 0 --heaps 0",
        ] {
            Cli::try_parse_from(["skyhaul"].into_iter().chain(line.split(' '))).unwrap();
        }
    }
}
