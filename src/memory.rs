//! Memory that the start needs and the run does not goes back to the system.
//!
//! Reading a configuration of a thousand sensors takes a few megabytes for a moment. The C library keeps what is freed for
//! later, and a gateway that has sixty-four megabytes has no later in which it would be wanted.

/// Gives freed memory back to the system, where the C library can. It is a few microseconds' work.
#[allow(unsafe_code)]
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: `malloc_trim` takes no pointer and may be called at any time, from any thread; it touches free memory only.
    unsafe {
        libc::malloc_trim(0);
    }
}
