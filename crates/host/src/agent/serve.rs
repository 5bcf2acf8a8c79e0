//! The agent's own side.

use crate::lines::read_line;
use crate::local::LocalHost;
use crate::wire::{self, Hello};
use crate::{HostError, Request, Result};
use std::io::{BufRead, Write};

/// Answers [`Hello`], which adds to what `host` protects, then carries out requests, one per line, until
/// there are no more; returns the exit status of the process.
pub fn serve(mut input: impl BufRead, mut output: impl Write, mut host: LocalHost) -> i32 {
    let mut line = Vec::new();
    let mut is_first = true;
    loop {
        match read_line(&mut input, &mut line) {
            Ok(()) if line.is_empty() => return 0,
            Ok(()) => {}
            Err(_) => return 1,
        }
        let answer = if is_first { greet(&line, &mut host) } else { answer(&line, &mut host) };
        is_first = false;
        let answer = answer
            .or_else(|error| refuse("answer the request", &error))
            .expect("an error made of valid text is valid JSON");
        // If nobody reads the answer, the parent is gone.
        if output.write_all(&answer).and_then(|()| output.flush()).is_err() {
            return 1;
        }
    }
}

fn greet(line: &[u8], host: &mut LocalHost) -> serde_json::Result<Vec<u8>> {
    match serde_json::from_slice::<Hello>(line) {
        Ok(hello) => {
            let answer = hello.answer();
            host.protect(hello.protected);
            host.number_handles_from(hello.first_handle);
            wire::line(&answer)
        }
        Err(error) => refuse("parse the request", &error),
    }
}

fn answer(line: &[u8], host: &mut LocalHost) -> serde_json::Result<Vec<u8>> {
    match serde_json::from_slice::<Request>(line) {
        Ok(request) => request.carry_out(host),
        Err(error) => refuse("parse the request", &error),
    }
}

fn refuse(action: &str, error: &serde_json::Error) -> serde_json::Result<Vec<u8>> {
    let refused: Result<()> = Err(HostError::System {
        action: action.to_string(),
        object: "from the parent".to_string(),
        errno: 0,
        reason: error.to_string(),
    });
    wire::line(&refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;
    use std::path::PathBuf;

    fn exchange(lines: &str) -> Vec<String> {
        let mut output = Vec::new();
        let host = LocalHost::new(PathBuf::from("/bin/true"), Vec::new());
        assert_eq!(serve(Cursor::new(lines), &mut output, host), 0);
        String::from_utf8(output).unwrap().lines().map(str::to_string).collect()
    }

    #[test]
    fn one_line_for_each_line() {
        let hello = Hello { version: wire::VERSION, protected: Vec::new(), first_handle: 1 << 32 };
        let read = Request::ReadText { path: "/proc/sys/kernel/ostype".into() };
        let missing = Request::ReadText { path: "/no/such/file".into() };
        let hello = serde_json::to_string(&hello).unwrap();
        let [read, missing] = [read, missing].map(|request| serde_json::to_string(&request).unwrap());
        let answers = exchange(&format!("{hello}\n{read}\n{missing}\n"));
        assert_eq!(answers[0], format!(r#"{{"Ok":{}}}"#, wire::VERSION));
        assert_eq!(answers[1], r#"{"Ok":"Linux\n"}"#);
        let error = serde_json::from_str::<Result<String>>(&answers[2]).unwrap().unwrap_err();
        assert_eq!(error.to_string(), "cannot read '/no/such/file': No such file or directory");
        assert_eq!(error.errno(), Some(2));
        assert_eq!(answers.len(), 3);
    }

    #[test]
    fn other_versions_and_other_lines_are_refused() {
        let hello = r#"{"version":99,"protected":[],"first_handle":1}"#;
        let answers = exchange(&format!("{hello}\nnonsense\n"));
        assert!(answers[0].contains("not 99"), "{}", answers[0]);
        assert!(answers[1].contains("parse the request"), "{}", answers[1]);
    }
}
