//! Waits of less than a millisecond, from the kernel's own timer.
//!
//! The runtime's timer counts whole milliseconds and rounds up. On a line of 115,200 bit/s, where 1.75 ms of silence part two
//! frames and a whole request takes 5 ms, that alone costs a third of the line.

use std::io;
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// A timer of the kernel.
#[derive(Debug)]
pub struct FineTimer(AsyncFd<OwnedFd>);

impl FineTimer {
    /// A timer that is not running. Fails where no file descriptor is free.
    pub fn new() -> io::Result<FineTimer> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        // SAFETY: an `OwnedFd` is one open descriptor, always the same, until it is dropped; and `AsyncFd` owns it.
        #[allow(unsafe_code)]
        let timer = unsafe { AsyncFd::register(timer) }?;
        Ok(FineTimer(timer))
    }

    /// Waits that long, and some ten microseconds more for the way through the kernel.
    pub async fn sleep(&mut self, duration: Duration) -> io::Result<()> {
        // A time of zero would stop the timer.
        let Ok(it_value) = Timespec::try_from(duration.max(Duration::from_nanos(1))) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &once)?;
        loop {
            let mut ready = self.0.readable().await?;
            let mut expirations = [0; 8];
            // `Err` means that it was not ready after all, as after a wait that was given up.
            if let Ok(read) = ready.try_io(|timer| Ok(rustix::io::read(timer.get_ref(), &mut expirations)?)) {
                return read.map(drop);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[tokio::test]
    async fn it_never_ends_too_soon_and_can_be_used_again_also_after_a_wait_was_given_up() {
        let mut timer = FineTimer::new().expect("a timer");
        let _ = tokio::time::timeout(Duration::from_millis(1), timer.sleep(Duration::from_secs(60))).await;
        for micros in [0, 1, 300, 1_750] {
            let (started, wanted) = (Instant::now(), Duration::from_micros(micros));
            timer.sleep(wanted).await.expect("a wait");
            assert!(started.elapsed() >= wanted, "{:?} and not {wanted:?}", started.elapsed());
        }
    }
}
