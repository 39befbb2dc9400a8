//! Limits of numbers: what is outside is refused with the reason, before anything is opened.

use clap::builder::TypedValueParser;

/// Receiving threads for one address. More than one for each processor receive no faster, and each has a socket buffer.
pub(super) const RECEIVE_THREADS: u64 = 256;
/// Senders to one destination, each a thread and a socket.
pub(super) const SENDERS: u64 = 1024;
/// Sockets of one sender.
pub(super) const SOCKETS: u64 = 1024;
/// Blocks kept open for each stream: many times as many as the largest memory has by default.
pub(super) const WINDOW: u64 = 4096;
/// Sender and receiver pairs of a benchmark, each with two threads and memory for 64 heaps.
pub(super) const PAIRS: u64 = 256;
/// Directories that stand for disks in the demonstration.
pub(super) const DISKS: u64 = 64;

/// A number from 1 to `most`; `hint` says what to write instead.
pub(super) fn up_to<T>(most: u64, hint: &'static str) -> impl TypedValueParser<Value = T>
where
    T: TryFrom<u64> + Clone + Send + Sync + 'static,
{
    from_to(1, most, hint)
}

/// A number of at least 1.
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
        u64::MAX => format!("a whole number, at least {least}"),
        _ => format!("a whole number from {least} to {most}"),
    };
    move |text: &str| {
        let number = text.parse::<u64>().ok().filter(|n| (least..=most).contains(n));
        number.and_then(|n| T::try_from(n).ok()).ok_or_else(|| format!("must be {range}\nhint: {hint}"))
    }
}

/// A quantity greater than zero.
pub(super) fn some<T>(hint: &'static str) -> impl TypedValueParser<Value = T>
where
    T: std::str::FromStr<Err: std::fmt::Display> + Default + PartialEq + Clone + Send + Sync + 'static,
{
    move |text: &str| match text.parse::<T>() {
        Ok(value) if value == T::default() => Err(format!("must be greater than zero\nhint: {hint}")),
        Ok(value) => Ok(value),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use crate::args::cli::Cli;
    use clap::Parser;

    #[test]
    fn numbers_out_of_range_are_refused_with_a_hint() {
        for (line, hint) in [
            ("receive --listen udp://:0 --receive-threads 257", "from 1 to 256"),
            ("receive --listen udp://:0 --receive-threads 0", "from 1 to 256"),
            ("receive --listen udp://:0 --receive-threads -1", "from 1 to 256"),
            ("receive --listen udp://:0 --receive-threads 99999999999999999999", "from 1 to 256"),
            ("receive --listen udp://:0 --window 99999", "from 1 to 4096"),
            ("receive --listen udp://:0 --max-streams 0", "at least 1"),
            ("receive --listen udp://:0 --strip 99999", "from 0 to 65507"),
            ("receive --listen udp://:0 --frame-rate 0", "from 1 to 16777216"),
            ("receive --listen udp://:0 --bytes 0", "greater than zero"),
            ("receive --listen udp://:0 --heaps 0", "at least 1"),
            ("receive --listen udp://:0 --heap-window 0", "at least 1"),
            ("receive --listen udp://:0 --heap-timeout 0s", "greater than zero"),
            ("record --disk d --scan s --listen udp://:0 --chunk 0", "greater than zero"),
            ("send --to udp://10.0.0.1:1 --senders 5000", "from 1 to 1024"),
            ("send --to udp://10.0.0.1:1 --input f --loop 0", "at least 1"),
            ("send --to udp://10.0.0.1:1 --heap-step 0", "at least 1"),
            ("send --to udp://10.0.0.1:1 --items 0", "at least 1"),
            ("inspect f -n 0", "at least 1"),
            ("demo --disks 1000", "from 1 to 64"),
            ("demo --rate 0bps", "greater than zero"),
            ("demo --duration 0s", "greater than zero"),
            ("bench --rounds 0", "at least 1"),
            ("bench --time 0s", "greater than zero"),
            ("bench --rate 0bps", "greater than zero"),
            ("bench --rates 0bps", "greater than zero"),
            ("bench --bytes 0", "greater than zero"),
            ("bench --memory 0", "greater than zero"),
            ("bench --pairs 1000", "from 1 to 256"),
            ("bench --heap-size 0", "greater than zero"),
        ] {
            let words = ["skyhaul"].into_iter().chain(line.split(' '));
            let parsed = crate::args::parse(words, &crate::args::Places::default());
            let said = parsed.map(|_| ()).unwrap_err().to_string();
            assert!(said.contains(hint) && said.contains("hint: "), "{line}: {said}");
        }
    }

    #[test]
    fn numbers_in_range_are_accepted() {
        for line in [
            "receive --listen udp://:0 --receive-threads 256 --window 4096 --strip 0 --max-streams 99999",
            "send --to udp://10.0.0.1:1 --senders 1024 --rate max --heap-size 0 --heaps 0",
        ] {
            Cli::try_parse_from(["skyhaul"].into_iter().chain(line.split(' '))).unwrap();
        }
    }
}
