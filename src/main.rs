//! The command line: arguments become a call of the library, and its result an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    fieldgate::cli::main()
}
