//! Options that start clients, and those of the agents that they start.

use super::{InputPath, OutputPath};
use clap::Args;
use std::net::{IpAddr, SocketAddr};

/// Options that start the clients of a plan.
#[derive(Debug, Default, Args)]
pub struct Launching {
    /// Run the load on other machines, which this command starts: `srun -N3 --ntasks-per-node=1`, `mpirun
    /// --host a,b,c`, `pdsh -w n[1-3]`. It is run with fsdyno's agent as the program to start; fsdyno must be
    /// installed on all of them under the same path, and the directory shared.
    #[arg(long, value_name = "COMMAND")]
    pub launch: Option<String>,
    /// The address of this machine that clients connect to, with or without a port [default: all addresses,
    /// any free port].
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = address, requires = "launch")]
    pub listen: Option<(IpAddr, u16)>,
    /// A file on all machines for the secret of the launch, which is created and removed. Needed where the
    /// launcher does not pass on the environment, as pdsh does not.
    #[arg(long, value_name = "FILE", requires = "launch")]
    pub token_file: Option<OutputPath>,
}

/// The same for a sweep, which machines can share.
#[derive(Debug, Default, Args)]
pub struct Sharing {
    #[command(flatten)]
    pub launching: Launching,
    /// Share the trials among the machines that --launch starts, as `[fleet]` in the plan says: each block
    /// runs on one of them. Devices are confirmed for each machine: `--destroy NAME:DEVICE`. With a number,
    /// so many machines instead of those of the plan.
    #[arg(long, value_name = "COUNT", requires = "launch", num_args = 0..=1, require_equals = true,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub fleet: Option<Option<u32>>,
}

/// Other machines that take part in a sweep.
#[derive(Debug, Clone, Copy)]
pub enum Elsewhere<'a> {
    /// None.
    Nowhere,
    /// Clients, which do the load.
    Clients(&'a Launching),
    /// A fleet, which shares the trials, of so many machines; as many as the plan says if absent.
    Fleet(&'a Launching, Option<u32>),
}

impl<'a> Elsewhere<'a> {
    /// Returns the machines that the command line asks for.
    pub fn of(launching: &'a Launching, fleet: Option<Option<u32>>) -> Self {
        match (&launching.launch, fleet) {
            (None, _) => Elsewhere::Nowhere,
            (Some(_), None) => Elsewhere::Clients(launching),
            (Some(_), Some(count)) => Elsewhere::Fleet(launching, count),
        }
    }
}

/// Options of the hidden `fsdyno agent`.
#[derive(Debug, Default, Args)]
pub struct Agent {
    /// Serve the coordinator at one of these addresses instead of stdin.
    #[arg(long, value_name = "ADDRESS:PORT", value_delimiter = ',')]
    pub join: Vec<SocketAddr>,
    /// The file with the secret of the launch, if it is not in the environment.
    #[arg(long, value_name = "FILE", requires = "join")]
    pub token_file: Option<InputPath>,
    /// Another process watches over this one.
    #[arg(long, requires = "join")]
    pub supervised: bool,
}

fn address(text: &str) -> Result<(IpAddr, u16), String> {
    let with_port = text.parse::<SocketAddr>().map(|address| (address.ip(), address.port()));
    with_port.or_else(|_| text.parse().map(|address| (address, 0))).map_err(|_| {
        "not an address of this machine, such as 10.0.0.1, 10.0.0.1:4000 or [fd00::1]:4000".to_string()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_have_a_port() {
        assert_eq!(address("10.0.0.1"), Ok(([10, 0, 0, 1].into(), 0)));
        assert_eq!(address("10.0.0.1:4000"), Ok(([10, 0, 0, 1].into(), 4000)));
        assert_eq!(address("[::1]:4000"), Ok((std::net::Ipv6Addr::LOCALHOST.into(), 4000)));
        assert!(address("eth0").is_err());
    }
}
