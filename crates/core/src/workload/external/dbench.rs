//! The options that dbench accepts in a plan: how long, how many clients and how they sync, but nothing that
//! names a place or a server.

use super::number;
use std::str::FromStr;

/// The load that comes with its package: what a file server did for one client of NetBench.
pub const LOAD: &str = "/usr/share/dbench/client.txt";

/// The longest run in seconds, and the most clients.
const MOST_SECONDS: u32 = 86_400;
const MOST_CLIENTS: u32 = 4096;

/// The arguments of dbench.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arguments {
    /// The time for which it runs (`-t`).
    pub seconds: u32,
    /// The processes that replay the load at once, the last word.
    pub clients: u32,
    /// Its switches: `-s` opens files with `O_SYNC`, `-S` syncs changes of directories, `-F` syncs after each
    /// write, `-x` sets extended attributes.
    pub switches: Vec<String>,
}

impl FromStr for Arguments {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut arguments = Arguments { seconds: 30, clients: 4, switches: Vec::new() };
        let mut words = text.split_whitespace().peekable();
        while let Some(word) = words.next() {
            let is_last = words.peek().is_none();
            match word {
                "-t" => {
                    arguments.seconds = number(words.next(), MOST_SECONDS).ok_or_else(|| unknown(word))?
                }
                "-s" | "-S" | "-F" | "-x" => arguments.switches.push(word.to_string()),
                _ if is_last => {
                    arguments.clients = number(Some(word), MOST_CLIENTS).ok_or_else(|| unknown(word))?
                }
                _ => return Err(unknown(word)),
            }
        }
        Ok(arguments)
    }
}

fn unknown(word: &str) -> String {
    format!(
        "options of dbench, `-t SECONDS -s -S -F -x`, and then the number of clients, up to {MOST_CLIENTS} \
         (invalid: '{word}')"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_clients_and_switches_are_accepted_and_places_are_not() {
        let options: Arguments = "-t 20 -s -F 8".parse().unwrap();
        assert_eq!((options.seconds, options.clients, options.switches.len()), (20, 8, 2));
        let options: Arguments = "".parse().unwrap();
        assert_eq!((options.seconds, options.clients), (30, 4));
        for bad in
            ["-D /etc 4", "-c /etc/passwd", "4 -t 20", "-t", "-t 0 1", "0", "-t 99999 1", "-B nfs", "4 4"]
        {
            assert!(bad.parse::<Arguments>().is_err(), "{bad}");
        }
    }
}
