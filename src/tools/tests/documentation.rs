//! `docs/tools.md` says what the code does: its parts between marks are written from the tables.

use std::fmt::Write;
use std::path::PathBuf;

use crate::modbus::exception::ExceptionCode;
use crate::registry::reading::OfflineCause;
use crate::tools::ToolName;
use crate::tools::answer::ErrorCode;
use crate::tools::offline::Lack;
use crate::tools::spec::ToolSpec;

const MARK: &str = "<!-- from the table -->";
const CAUSES: [OfflineCause; 7] = [
    OfflineCause::Refused,
    OfflineCause::NoRoute,
    OfflineCause::ConnectedButSilent,
    OfflineCause::UnitSilentBehindGateway,
    OfflineCause::NoPathBehindGateway,
    OfflineCause::LineNoise,
    OfflineCause::PortGone,
];
const END: &str = "<!-- end -->";

fn page() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/tools.md")
}

/// What the table says of a tool.
fn block(spec: &ToolSpec) -> String {
    let mut text = format!("{}\n\nToolset `{}`.", spec.description, spec.toolset.as_str());
    if spec.params.is_empty() {
        text.push_str(" No arguments.\n");
    } else {
        text.push_str("\n\n| argument | takes | for | if left out |\n|---|---|---|---|\n");
    }
    for param in spec.params {
        let left_out = if param.required { "refused" } else { param.left_out };
        let (name, takes) = (param.name, param.kind.words());
        let _ = writeln!(text, "| `{name}` | {takes} | {} | {left_out} |", param.description);
    }
    let names: Vec<String> = spec.errors.iter().map(|code| format!("`{}`", code.name())).collect();
    let own = if names.is_empty() { "none but those of every call".to_owned() } else { names.join(", ") };
    let _ = write!(text, "\nErrors of its own: {own}.\n\n**A time-out means:** {}\n", spec.on_timeout);
    text
}

/// The page around the part between the marks of a tool: before, the part, after.
fn parts(page: &str, tool: ToolName) -> (&str, &str, &str) {
    let heading = format!("\n### `{}`\n", tool.as_str());
    let start = page.find(&heading).unwrap_or_else(|| panic!("no section for {}", tool.as_str()));
    let start = start + page[start..].find(MARK).expect("a mark") + MARK.len();
    let end = start + page[start..].find(END).expect("an end");
    (&page[..start], &page[start..end], &page[end..])
}

#[test]
fn the_page_on_tools_says_what_the_tables_say() {
    // covers: D11
    let mut text = std::fs::read_to_string(page()).expect("docs/tools.md");
    for tool in ToolName::ALL {
        let expected = format!("\n{}", block(tool.spec()));
        let (before, written, after) = parts(&text, tool);
        if std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1") {
            text = format!("{before}{expected}{after}");
            std::fs::write(page(), &text).expect("docs/tools.md");
        } else {
            assert_eq!(written, expected, "{}: UPDATE_GOLDEN=1 writes it anew", tool.as_str());
        }
    }
}

#[test]
fn the_page_on_tools_says_what_to_do_about_every_error() {
    let text = std::fs::read_to_string(page()).expect("docs/tools.md");
    for code in ErrorCode::ALL {
        let row = format!("| `{}` | {} |", code.name(), code.class().name());
        assert!(text.contains(&row), "no row {row}");
    }
}

#[test]
fn the_page_on_tools_names_every_cause_of_an_offline_sensor() {
    let text = std::fs::read_to_string(page()).expect("docs/tools.md");
    let causes = CAUSES.map(OfflineCause::name);
    for cause in causes.into_iter().chain(["frozen"]).chain(
        [Lack::NoValue, Lack::NotANumber, Lack::Implausible, Lack::Jumped, Lack::DeviceFailed(ExceptionCode(4))]
            .map(Lack::name),
    ) {
        assert!(text.contains(&format!("`{cause}`")), "{cause} is not explained");
    }
}
