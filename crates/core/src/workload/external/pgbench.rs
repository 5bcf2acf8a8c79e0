//! The options that pgbench accepts in a plan: sizes, numbers and which of its built-in transactions, but
//! nothing that names a server, a database or a file.

use super::number;
use std::str::FromStr;

/// The largest scale (1,500 GB), the most clients, and the longest run in seconds.
const MOST_SCALE: u32 = 100_000;
const MOST_CLIENTS: u32 = 4096;
const MOST_SECONDS: u32 = 86_400;

/// The arguments of pgbench.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arguments {
    /// Hundreds of thousands of accounts, about 15 MB each (`-s`).
    pub scale: u32,
    /// Sessions at once (`-c`).
    pub clients: u32,
    /// Threads that drive them (`-j`).
    pub threads: u32,
    /// The time for which it runs (`-T`).
    pub seconds: u32,
    /// `-N`: simple updates; `-S`: reads only; without either, the transaction of TPC-B.
    pub switches: Vec<String>,
}

impl FromStr for Arguments {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut arguments =
            Arguments { scale: 10, clients: 4, threads: 1, seconds: 60, switches: Vec::new() };
        let mut words = text.split_whitespace();
        while let Some(word) = words.next() {
            let (value, most) = match word {
                "-s" => (&mut arguments.scale, MOST_SCALE),
                "-c" => (&mut arguments.clients, MOST_CLIENTS),
                "-j" => (&mut arguments.threads, MOST_CLIENTS),
                "-T" => (&mut arguments.seconds, MOST_SECONDS),
                "-N" | "-S" if arguments.switches.is_empty() => {
                    arguments.switches.push(word.to_string());
                    continue;
                }
                _ => return Err(unknown(word)),
            };
            *value = number(words.next(), most).ok_or_else(|| unknown(word))?;
        }
        match arguments.threads <= arguments.clients {
            true => Ok(arguments),
            false => Err("no more threads (`-j`) than clients (`-c`)".to_string()),
        }
    }
}

fn unknown(word: &str) -> String {
    format!(
        "options of pgbench: `-s SCALE -c CLIENTS -j THREADS -T SECONDS`, and `-N` or `-S` (invalid: \
         '{word}')"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_transactions_are_accepted_and_places_are_not() {
        let options: Arguments = "-s 50 -c 8 -j 2 -T 30 -N".parse().unwrap();
        assert_eq!((options.scale, options.clients, options.threads, options.seconds), (50, 8, 2, 30));
        for bad in ["-h /tmp", "-f /etc/passwd", "-s 0", "-s", "-T x", "postgres", "-N -S", "-l", "-j 8 -c 2"]
        {
            assert!(bad.parse::<Arguments>().is_err(), "{bad}");
        }
    }
}
