//! Whether the gateway's tasks make progress, so that the watchdog is fed for work done and not for a timer that runs.
//!
//! A task pledges when it will pledge again at the latest: a link before each request and each wait, the session before each
//! event. A pledge that is not kept, and a task that ended, are faults of the gateway which a new start mends. A runtime
//! that stands still altogether cannot check anything; that is what the service manager's watchdog notices.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::clock;

/// How much longer than pledged anything may take, on a machine that is busy with other things.
const GRACE: Duration = Duration::from_secs(5);

/// What all tasks have pledged.
#[derive(Debug, Default)]
pub struct Progress {
    tasks: Mutex<Vec<Task>>,
}

#[derive(Debug)]
struct Task {
    name: String,
    due: Option<Instant>,
    /// The pledge that was found broken at the last check.
    suspected: Option<Instant>,
    ended: bool,
}

/// A task's own pledge. Dropped, it says that the task has ended. The default is one that nobody looks at.
#[derive(Debug, Default)]
pub struct Pledge {
    of: Option<(Arc<Progress>, usize)>,
}

/// Which task makes no progress.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stuck {
    /// It ended, though nobody told it to.
    #[error("{task} ended by itself")]
    Ended {
        /// Which task.
        task: String,
    },
    /// It did not come back in time.
    #[error("{task} has made no progress for {} s longer than it should take", late.as_secs())]
    Late {
        /// Which task.
        task: String,
        /// How late it is.
        late: Duration,
    },
}

impl Progress {
    /// Takes a task's pledge; until it says more, only its end counts.
    pub fn enrol(self: &Arc<Progress>, name: String) -> Pledge {
        let mut tasks = self.lock();
        tasks.push(Task { name, due: None, suspected: None, ended: false });
        Pledge { of: Some((Arc::clone(self), tasks.len() - 1)) }
    }

    /// The first task that makes no progress, if there is one.
    ///
    /// A late task is only suspected at first, and found stuck at the next check: after the whole process was stopped for a
    /// while (a debugger, a suspended machine) the check may run before the tasks do.
    pub fn check(&self, now: Instant) -> Option<Stuck> {
        self.lock().iter_mut().find_map(|task| {
            if task.ended {
                return Some(Stuck::Ended { task: task.name.clone() });
            }
            let late = task.due.filter(|due| *due < now);
            let again = late.filter(|due| task.suspected == Some(*due));
            task.suspected = late;
            again.map(|due| Stuck::Late { task: task.name.clone(), late: now.saturating_duration_since(due) })
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Task>> {
        self.tasks.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Pledge {
    /// Pledges to be here again after this time, or sooner.
    pub fn within(&self, time: Duration) {
        self.set(clock::instant().checked_add(time.saturating_add(GRACE)));
    }

    /// Pledges nothing: the task waits for others, as long as it takes.
    pub fn whenever(&self) {
        self.set(None);
    }

    fn set(&self, due: Option<Instant>) {
        self.change(|task| task.due = due);
    }

    fn change(&self, change: impl FnOnce(&mut Task)) {
        if let Some((progress, place)) = &self.of
            && let Some(task) = progress.lock().get_mut(*place)
        {
            change(task);
        }
    }
}

impl Drop for Pledge {
    fn drop(&mut self) {
        self.change(|task| task.ended = true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn late(progress: &Progress, after: Duration) -> Option<Stuck> {
        progress.check(clock::instant() + after)
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_does_not_keep_its_pledge_is_found_at_the_second_look() {
        let progress = Arc::new(Progress::default());
        let _other = progress.enrol("session".into());
        let pledge = progress.enrol("link rs485-a".into());
        pledge.within(SECOND);
        assert_eq!(late(&progress, SECOND + GRACE), None, "it may still be in time");
        assert_eq!(late(&progress, 2 * SECOND + GRACE), None, "suspected");
        let found = late(&progress, 3 * SECOND + GRACE).expect("stuck");
        assert_eq!(found, Stuck::Late { task: "link rs485-a".into(), late: 2 * SECOND });
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_only_could_not_run_clears_itself_of_suspicion() {
        let progress = Arc::new(Progress::default());
        let pledge = progress.enrol("link rs485-a".into());
        pledge.within(SECOND);
        // The whole process stood still for a minute, and the check runs first.
        tokio::time::advance(60 * SECOND).await;
        assert_eq!(late(&progress, Duration::ZERO), None);
        pledge.within(SECOND);
        assert_eq!(late(&progress, Duration::ZERO), None);
        pledge.whenever();
        assert_eq!(late(&progress, 1000 * SECOND), None);
        assert_eq!(late(&progress, 1000 * SECOND), None);
    }

    #[tokio::test]
    async fn a_task_that_panics_is_found_at_once() {
        let progress = Arc::new(Progress::default());
        let pledge = progress.enrol("dispatcher".into());
        let task = tokio::spawn(async move {
            pledge.whenever();
            panic!("on purpose");
        });
        assert!(task.await.is_err());
        assert_eq!(late(&progress, Duration::ZERO), Some(Stuck::Ended { task: "dispatcher".into() }));
    }
}
