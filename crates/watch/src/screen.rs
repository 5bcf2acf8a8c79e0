//! The loop that shows a running sweep and obeys keys.

use crate::attached::Attached;
use crate::draw::{ScreenView, chosen, draw};
use crate::keys::{self, Input, Key};
use crate::look::Look;
use crate::scene::{Scene, State};
use crate::status::{Stage, Status};
use crate::terminal::Terminal;
use fsdyno_core::AfterTrial;
use rustix::process::nice;
use rustix::time::{ClockId, clock_gettime};
use signal_hook::consts::SIGHUP;
use std::io;
use std::time::{Duration, Instant};

/// The time between two frames, unless a key is pressed.
const FRAME: Duration = Duration::from_millis(250);
/// Nothing has changed for so long: what counts down is drawn again.
const IDLE: Duration = Duration::from_secs(1);

/// The facts that a screen needs from outside: those of the store.
pub trait Outside {
    /// Brings the scene up to date with what is stored. Called when a trial was stored, and when the sweep
    /// has begun or ended.
    ///
    /// # Errors
    /// Why that is impossible, in one line.
    fn update(&mut self, scene: &mut Scene, status: &Status, alive: bool) -> Result<(), String>;

    /// The process that continues a sweep whose process has ended, once there is one.
    fn successor(&mut self) -> Option<Attached>;
}

/// Why a screen was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// The user left it.
    Asked,
    /// The user pressed Ctrl-C.
    Interrupted,
    /// The sweep has ended.
    Ended,
    /// A signal wants this process to end, or the terminal is gone.
    Signal(i32),
}

/// A screen, without its terminal.
#[derive(Debug)]
pub struct Screen {
    /// The scene that it shows.
    pub scene: Scene,
    /// The look of the terminal.
    pub look: Look,
    /// `true` if the screen is left as soon as the sweep has ended.
    pub until_end: bool,
}

/// The action that a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Nothing,
    Leave,
    Interrupt,
    Ask(AfterTrial),
}

/// Shows a sweep on the terminal until the user leaves, or the sweep ends if that is wanted.
///
/// # Errors
/// The terminal's.
pub fn watch(screen: Screen, attached: &mut Attached, outside: &mut dyn Outside) -> io::Result<Left> {
    let Screen { mut scene, look, until_end } = screen;
    // Whatever is measured goes first.
    let _ = nice(19);
    let mut terminal = Terminal::take()?;
    let mut view = ScreenView::default();
    let (began, cpu_before) = (Instant::now(), cpu());
    let (mut drawn, mut stored, mut known) = (None::<Instant>, None, None);
    let mut searched = Instant::now();
    loop {
        if let Some(signal) = terminal.signal() {
            return Ok(Left::Signal(signal));
        }
        let mut alive = attached.is_alive();
        if !alive && !until_end && searched.elapsed() >= IDLE {
            searched = Instant::now();
            if let Some(successor) = outside.successor() {
                *attached = successor;
                (stored, known, alive) = (None, None, true);
            }
        }
        let mut changed = known != Some(alive);
        match attached.news() {
            Ok(Some(status)) => {
                let now = (status.sweep, status.stored, status.stage == Stage::Ended, status.raced);
                if stored != Some(now) {
                    stored = Some(now);
                    view.trouble = outside.update(&mut scene, &status, alive).err();
                    attached.race().into_iter().for_each(|course| scene.set_race(course));
                }
                scene.set_status(status);
                changed = true;
            }
            Ok(None) => {}
            Err(error) => {
                view.trouble = Some(error.to_string());
                changed = true;
            }
        }
        scene.set_silence(attached.silence().filter(|_| alive));
        // The page is the truth; what was published last may be older.
        scene.ask(attached.asked());
        if known != Some(alive) && !alive {
            let status = scene.status.clone();
            view.trouble = status.and_then(|status| outside.update(&mut scene, &status, false).err());
            if scene.sweep.state.is_alive() {
                scene.set_sweep(State::Killed, scene.sweep.trials);
            }
        }
        known = Some(alive);
        if until_end && (!alive || scene.has_ended()) {
            return Ok(Left::Ended);
        }
        if changed || drawn.is_none_or(|drawn| drawn.elapsed() >= IDLE) {
            let elapsed = began.elapsed().as_secs_f64();
            scene.own_cost = (elapsed > 2.0).then(|| (cpu() - cpu_before) / elapsed);
            terminal.drawing.draw(|frame| {
                let area = frame.area();
                draw(&scene, &mut view, look, area, frame.buffer_mut());
            })?;
            drawn = Some(Instant::now());
        }
        let keys = match keys::wait(FRAME) {
            Input::Keys(keys) => keys,
            Input::Gone => return Ok(Left::Signal(SIGHUP)),
        };
        for key in keys {
            drawn = None;
            if let Some(left) = answer(key, &mut scene, &mut view, attached) {
                return Ok(left);
            }
        }
    }
}

/// Does what a key asks for; returns how the user leaves.
fn answer(key: Key, scene: &mut Scene, view: &mut ScreenView, attached: &mut Attached) -> Option<Left> {
    match obey(scene, view, key) {
        Wish::Nothing => {}
        Wish::Leave => return Some(Left::Asked),
        Wish::Interrupt => return Some(Left::Interrupted),
        Wish::Ask(wish) => match attached.ask(wish) {
            Ok(()) => scene.ask(wish),
            Err(error) => view.trouble = Some(error.to_string()),
        },
    }
    None
}

/// Processor time of this process so far, in seconds.
fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Changes the view as a key wants, and returns the action that the key asks for beyond that.
fn obey(scene: &mut Scene, view: &mut ScreenView, key: Key) -> Wish {
    view.trouble = None;
    if key == Key::Interrupt {
        return Wish::Interrupt;
    }
    if std::mem::take(&mut view.stops) {
        let yes = matches!(key, Key::Char('y' | 'Y'));
        return if yes { Wish::Ask(AfterTrial::Stop) } else { Wish::Nothing };
    }
    let alive = scene.sweep.state.is_alive();
    let last = scene.rows.len().saturating_sub(1);
    let by = |view: &mut ScreenView, lines: isize| {
        let place = if view.details { &mut view.top } else { &mut view.cursor };
        *place = place.saturating_add_signed(lines);
        view.cursor = view.cursor.min(last);
    };
    match key {
        Key::Char('q') => return Wish::Leave,
        Key::Escape if view.details => (view.details, view.top) = (false, 0),
        Key::Escape => return Wish::Leave,
        Key::Char('p') if alive => {
            return Wish::Ask(match scene.asked() {
                AfterTrial::Continue => AfterTrial::Pause,
                AfterTrial::Pause | AfterTrial::Stop => AfterTrial::Continue,
            });
        }
        Key::Char('s') if alive => view.stops = true,
        Key::Up | Key::Char('k') => by(view, -1),
        Key::Down | Key::Char('j') => by(view, 1),
        Key::PageUp => by(view, -10),
        Key::PageDown => by(view, 10),
        Key::Home => by(view, isize::MIN),
        Key::End => by(view, isize::MAX),
        Key::Enter if view.details || chosen(scene, view.cursor).is_some() => {
            (view.details, view.top) = (!view.details, 0);
        }
        _ => {}
    }
    Wish::Nothing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::tests::scene;

    fn press(scene: &mut Scene, view: &mut ScreenView, key: Key) -> Wish {
        obey(scene, view, key)
    }

    #[test]
    fn stopping_is_asked_once_and_only_y_means_yes() {
        let (mut scene, mut view) = (scene(), ScreenView::default());
        assert_eq!(press(&mut scene, &mut view, Key::Char('s')), Wish::Nothing);
        assert!(view.stops);
        assert_eq!(press(&mut scene, &mut view, Key::Char('q')), Wish::Nothing, "an answer, and no");
        assert!(!view.stops);
        press(&mut scene, &mut view, Key::Char('s'));
        assert_eq!(press(&mut scene, &mut view, Key::Char('y')), Wish::Ask(AfterTrial::Stop));
    }

    #[test]
    fn a_pause_is_asked_for_and_withdrawn_by_the_same_key() {
        let (mut scene, mut view) = (scene(), ScreenView::default());
        assert_eq!(press(&mut scene, &mut view, Key::Char('p')), Wish::Ask(AfterTrial::Pause));
        scene.ask(AfterTrial::Pause);
        assert_eq!(press(&mut scene, &mut view, Key::Char('p')), Wish::Ask(AfterTrial::Continue));
        scene.ask(AfterTrial::Stop);
        assert_eq!(press(&mut scene, &mut view, Key::Char('p')), Wish::Ask(AfterTrial::Continue));
        scene.set_sweep(State::Finished, 8);
        assert_eq!(press(&mut scene, &mut view, Key::Char('p')), Wish::Nothing, "there is nothing to pause");
        assert_eq!(press(&mut scene, &mut view, Key::Char('s')), Wish::Nothing);
        assert!(!view.stops);
    }

    #[test]
    fn keys_move_within_the_table_and_open_a_case() {
        let (mut scene, mut view) = (scene(), ScreenView::default());
        press(&mut scene, &mut view, Key::Up);
        assert_eq!(view.cursor, 0);
        press(&mut scene, &mut view, Key::End);
        assert_eq!(view.cursor, 2);
        press(&mut scene, &mut view, Key::PageUp);
        press(&mut scene, &mut view, Key::Enter);
        assert!(view.details && view.cursor == 0);
        press(&mut scene, &mut view, Key::Down);
        assert_eq!((view.top, view.cursor), (1, 0), "keys scroll the case");
        assert_eq!(press(&mut scene, &mut view, Key::Escape), Wish::Nothing);
        assert!(!view.details);
        assert_eq!(press(&mut scene, &mut view, Key::Escape), Wish::Leave);
    }

    #[test]
    fn control_c_leaves_even_when_a_question_is_open() {
        let (mut scene, mut view) = (scene(), ScreenView::default());
        press(&mut scene, &mut view, Key::Char('s'));
        assert_eq!(press(&mut scene, &mut view, Key::Interrupt), Wish::Interrupt);
    }
}
