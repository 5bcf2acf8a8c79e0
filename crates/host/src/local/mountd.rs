//! The two programs that stand beside a server of NFS 3: what rpcbind(8) and rpc.mountd(8) would answer.
//!
//! The kernel's server tells rpcbind its ports, and serves no version 3 without an answer (RFC 1833). Its
//! clients ask the mount protocol for the handle of the directory (RFC 1813, appendix I). NFS 4 needs
//! neither.

use crate::export::MOUNT_PORT;
use crate::{HostError, Result};
use onc_rpc::auth::AuthFlavor;
use onc_rpc::{AcceptedReply, AcceptedStatus, MessageType, ReplyBody, RpcMessage, expected_message_len};
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Where the kernel looks for rpcbind (net/sunrpc/rpcb_clnt.c).
const RPCBIND: &str = "/var/run/rpcbind.sock";

const PROGRAM_RPCBIND: u32 = 100_000;
const PROGRAM_MOUNT: u32 = 100_005;
const NULL: u32 = 0;
const SET: u32 = 1;
const UNSET: u32 = 2;
const MNT: u32 = 1;
const UMNT: u32 = 3;
const TRUE: u32 = 1;
/// `MNT3_OK`.
const OK: u32 = 0;
/// `MNT3ERR_ACCES`.
const ACCESS: u32 = 13;
/// The only flavour of credentials that is accepted, `AUTH_SYS`.
const AUTH_SYS: u32 = 1;
/// The longest message: a call with a path and credentials takes less than a sixth of it.
const MESSAGE_MOST: u32 = 16 * 1024;
const HEADER: usize = 4;

/// The handle of what is shown, while it is.
type Root = Arc<Mutex<Option<Vec<u8>>>>;

/// Both programs. They answer for as long as the guest runs.
#[derive(Debug, Default)]
pub(super) struct Mountd {
    root: Root,
    listens: bool,
}

impl Mountd {
    /// Listens, if it does not yet.
    pub fn listen(&mut self) -> Result<()> {
        if self.listens {
            return Ok(());
        }
        let socket = Path::new(RPCBIND);
        let failed = |error| HostError::system("listen at", socket, error);
        socket.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
        let rpcbind = UnixListener::bind(socket).map_err(failed)?;
        let port = format!("port {MOUNT_PORT}");
        let mount = TcpListener::bind((Ipv4Addr::UNSPECIFIED, MOUNT_PORT))
            .map_err(|error| HostError::system("listen at", Path::new(&port), error))?;
        let (of_rpcbind, of_mount) = (Root::default(), Arc::clone(&self.root));
        thread::spawn(move || rpcbind.incoming().flatten().for_each(|stream| attend(stream, &of_rpcbind)));
        thread::spawn(move || mount.incoming().flatten().for_each(|stream| attend(stream, &of_mount)));
        self.listens = true;
        Ok(())
    }

    /// Shows the directory with this handle, or nothing.
    pub fn show(&self, root: Option<Vec<u8>>) {
        *self.root.lock().unwrap_or_else(PoisonError::into_inner) = root;
    }
}

/// Answers one connection until it ends, in a thread of its own.
fn attend(mut stream: impl Read + Write + Send + 'static, root: &Root) {
    let root = Arc::clone(root);
    thread::spawn(move || while matches!(answer(&mut stream, &root), Ok(true)) {});
}

/// Answers one call; `false` if there is none, or none that can be answered.
fn answer(stream: &mut (impl Read + Write), root: &Root) -> io::Result<bool> {
    let Some(call) = message(stream)? else { return Ok(false) };
    let Ok(call) = RpcMessage::try_from(call.as_slice()) else { return Ok(false) };
    let Some(body) = call.call_body() else { return Ok(false) };
    let root = root.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let status = match (body.program(), body.procedure()) {
        (PROGRAM_RPCBIND | PROGRAM_MOUNT, NULL) | (PROGRAM_MOUNT, UMNT) => Some(Vec::new()),
        (PROGRAM_RPCBIND, SET | UNSET) => Some(words(&[TRUE])),
        (PROGRAM_MOUNT, MNT) => Some(mounted(root.as_deref())),
        _ => None,
    };
    let status = match &status {
        Some(payload) => AcceptedStatus::Success(payload.as_slice()),
        None => AcceptedStatus::ProcedureUnavailable,
    };
    let accepted = AcceptedReply::new(AuthFlavor::<&[u8]>::AuthNone(None), status);
    let reply = RpcMessage::new(call.xid(), MessageType::Reply(ReplyBody::Accepted(accepted)));
    stream.write_all(&reply.serialise()?)?;
    Ok(true)
}

/// The next message with its header; nothing at the end of the stream.
fn message(stream: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut message = vec![0; HEADER];
    match stream.read_exact(&mut message) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    match expected_message_len(&message) {
        Ok(length) if (HEADER as u32..=MESSAGE_MOST).contains(&length) => message.resize(length as usize, 0),
        _ => return Ok(None),
    }
    stream.read_exact(&mut message[HEADER..])?;
    Ok(Some(message))
}

/// `mountres3`: the handle, and who may ask.
fn mounted(root: Option<&[u8]>) -> Vec<u8> {
    let Some(handle) = root else { return words(&[ACCESS]) };
    let mut result = words(&[OK, handle.len() as u32]);
    result.extend_from_slice(handle);
    result.resize(result.len().next_multiple_of(4), 0);
    result.extend(words(&[1, AUTH_SYS]));
    result
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use onc_rpc::CallBody;
    use onc_rpc::auth::AuthUnixParams;
    use std::os::unix::net::UnixStream;

    /// Returns the answer to a call; nothing if the connection ends.
    fn asked(root: Option<&[u8]>, program: u32, procedure: u32, payload: &[u8]) -> Option<Vec<u8>> {
        let credentials = AuthFlavor::AuthUnix(AuthUnixParams::new(0, &b"client"[..], 0, 0, []));
        let none = AuthFlavor::AuthNone(None);
        let body = CallBody::new(program, 3, procedure, credentials, none, payload);
        let call = RpcMessage::new(7, MessageType::Call(body)).serialise().unwrap();
        said(root, &call)
    }

    fn said(root: Option<&[u8]>, bytes: &[u8]) -> Option<Vec<u8>> {
        let (mut ours, its) = UnixStream::pair().unwrap();
        attend(its, &Arc::new(Mutex::new(root.map(<[u8]>::to_vec))));
        ours.write_all(bytes).unwrap();
        // The connection ends, with an error if something was not read.
        let reply = message(&mut ours).ok()??;
        let reply = RpcMessage::try_from(reply.as_slice()).unwrap();
        assert_eq!(reply.xid(), 7);
        match reply.reply_body() {
            Some(ReplyBody::Accepted(accepted)) => match accepted.status() {
                AcceptedStatus::Success(payload) => Some(payload.to_vec()),
                other => Some(format!("{other:?}").into_bytes()),
            },
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_client_gets_the_handle_of_what_is_shown() {
        // Octets of a length that is no multiple of four are filled up (RFC 4506, 4.10).
        let handle = [1, 0, 0, 0, 9];
        let expected = [words(&[OK, 5]), handle.to_vec(), vec![0; 3], words(&[1, AUTH_SYS])].concat();
        let path = [words(&[1]), b"/\0\0\0".to_vec()].concat();
        assert_eq!(asked(Some(&handle), PROGRAM_MOUNT, MNT, &path), Some(expected));
        assert_eq!(asked(None, PROGRAM_MOUNT, MNT, &path), Some(words(&[ACCESS])));
        assert_eq!(asked(None, PROGRAM_MOUNT, UMNT, &path), Some(Vec::new()));
    }

    #[test]
    fn the_kernel_may_register_what_it_serves_and_nothing_else_is_answered() {
        assert_eq!(asked(None, PROGRAM_RPCBIND, SET, &words(&[100_003, 3])), Some(words(&[TRUE])));
        assert_eq!(asked(None, PROGRAM_RPCBIND, NULL, &[]), Some(Vec::new()));
        assert_eq!(asked(None, 100_003, 1, &[]).unwrap(), b"ProcedureUnavailable");
        for garbage in [&[0x80, 0, 0, 3, 1, 2, 3][..], &[0xff; 64], &[0; 8], &[0x80, 0, 0, 0]] {
            assert_eq!(said(None, garbage), None, "{garbage:?}");
        }
    }
}
