//! A real browser, driven over the DevTools protocol (<https://chromedevtools.github.io/devtools-protocol/>).
//!
//! Chromium speaks it over two pipes, with a zero byte after each message (`--remote-debugging-pipe`). A
//! dozen messages need no WebSocket, no port, and none of the crates that bind the whole protocol: the
//! smaller of the two maintained ones, headless_chrome, adds 113 packages and generates 60,000 lines.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// The program to run.
pub const PROGRAM: &str = "chromium";
/// The time that an answer may take before the browser is considered hung.
const PATIENCE: Duration = Duration::from_secs(600);

/// A browser with one page. It ends when dropped.
pub struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    sent: u64,
    events: Vec<Value>,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts it with an empty profile.
    pub fn new() -> Self {
        let profile = tempfile::tempdir().expect("a directory for the profile");
        // The shell gives the browser descriptors 3 and 4, as the option requires.
        let mut child = Command::new("sh")
            .args(["-c", "exec 3<&0 4>&1 </dev/null >/dev/null 2>&1; exec \"$0\" \"$@\"", PROGRAM])
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--remote-debugging-pipe",
                "--no-first-run",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start the browser");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in output.split(0).map_while(Result::ok) {
                let value = serde_json::from_slice(&message).expect("the browser speaks JSON");
                if sender.send(value).is_err() {
                    break;
                }
            }
        });
        let mut browser =
            Browser { child, input, messages, session: None, sent: 0, events: Vec::new(), _profile: profile };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attached =
            browser.call("Target.attachToTarget", json!({ "targetId": target["targetId"], "flatten": true }));
        browser.session = attached["sessionId"].as_str().map(str::to_string);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Sends a command and waits for its result. Events that arrive before it are kept.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.sent += 1;
        let mut message = json!({ "id": self.sent, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.input.write_all(format!("{message}\0").as_bytes()).expect("the browser listens");
        loop {
            let answer = self.messages.recv_timeout(PATIENCE).expect("the browser answers");
            if answer["id"] != self.sent {
                self.events.push(answer);
                continue;
            }
            assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
            return answer["result"].clone();
        }
    }

    /// The value of an expression in the page; promises are awaited.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let result = self.call(
            "Runtime.evaluate",
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true }),
        );
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// The same as a number.
    pub fn number(&mut self, expression: &str) -> f64 {
        self.evaluate(expression).as_f64().unwrap_or_else(|| panic!("{expression} is not a number"))
    }

    /// The same as text.
    pub fn text(&mut self, expression: &str) -> String {
        self.evaluate(expression).as_str().unwrap_or_else(|| panic!("{expression} is not text")).to_string()
    }

    /// Waits until an expression is true.
    pub fn wait_for(&mut self, expression: &str) {
        let begin = Instant::now();
        while self.evaluate(&format!("!!({expression})")) != true {
            assert!(begin.elapsed() < PATIENCE, "never became true: {expression}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Opens a file and waits until everything visible is drawn.
    pub fn open(&mut self, page: &Path) {
        // What the page before has to say is said when it is gone.
        self.call("Page.navigate", json!({ "url": "about:blank" }));
        self.wait_for("document.location.href === 'about:blank'");
        self.events.clear();
        self.call("Page.navigate", json!({ "url": format!("file://{}", page.display()) }));
        self.wait_for("document.documentElement?.dataset.ready === 'yes'");
    }

    /// Sets the size of the window in CSS pixels, and the preferred colour scheme.
    pub fn emulate(&mut self, width: u32, height: u32, scheme: &str) {
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700 }),
        );
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// Clicks on the centre of an element, as a mouse does.
    pub fn click(&mut self, selector: &str) {
        let selector = Value::from(selector);
        let place = self.evaluate(&format!(
            "(() => {{ const e = document.querySelector({selector}); e.scrollIntoView({{ block: 'center', \
             behavior: 'instant' }}); const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + \
             r.height / 2]; }})()"
        ));
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            self.call(
                "Input.dispatchMouseEvent",
                json!({ "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1 }),
            );
        }
    }

    /// Types text into the focused element.
    pub fn write(&mut self, text: &str) {
        self.call("Input.insertText", json!({ "text": text }));
    }

    /// Presses a key: `Enter`, `Tab`, `ArrowDown`.
    pub fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Enter" => (13, "\r"),
            "Tab" => (9, ""),
            "ArrowDown" => (40, ""),
            other => panic!("no code for the key {other}"),
        };
        let mut event = json!({ "type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code });
        if !text.is_empty() {
            event["text"] = text.into();
        }
        self.call("Input.dispatchKeyEvent", event);
        self.call(
            "Input.dispatchKeyEvent",
            json!({ "type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": code }),
        );
    }

    /// Returns the complaints of the page since it was opened: exceptions, console errors, violations of its
    /// policy.
    pub fn complaints(&mut self) -> Vec<String> {
        // A round trip, so that everything earlier has arrived.
        self.evaluate("0");
        let is_complaint = |event: &&Value| {
            let what = event["method"].as_str().unwrap_or_default();
            let level = event["params"]["entry"]["level"].as_str().or(event["params"]["type"].as_str());
            what == "Runtime.exceptionThrown"
                || (["Log.entryAdded", "Runtime.consoleAPICalled"].contains(&what)
                    && matches!(level, Some("error" | "warning" | "assert")))
        };
        self.events.iter().filter(is_complaint).map(|event| event["params"].to_string()).collect()
    }

    /// Every address that was requested since the page was opened.
    pub fn requests(&mut self) -> Vec<String> {
        self.evaluate("0");
        let requests = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        requests.filter_map(|event| event["params"]["request"]["url"].as_str().map(str::to_string)).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its other processes end when it closes itself.
        let _ = self.input.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let begin = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && begin.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
