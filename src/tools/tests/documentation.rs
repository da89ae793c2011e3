//! `docs/tools.md` says what the code does: its parts between marks are written from the tables.

use std::fmt::Write;
use std::path::PathBuf;

use crate::tools::ToolName;
use crate::tools::answer::ErrorCode;
use crate::tools::spec::ToolSpec;

const MARK: &str = "<!-- from the table -->";
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

fn section<'a>(page: &'a str, tool: ToolName) -> &'a str {
    let heading = format!("\n### `{}`\n", tool.as_str());
    let (_, rest) = page.split_once(&heading).unwrap_or_else(|| panic!("a section for {}", tool.as_str()));
    rest.split("\n##").next().unwrap_or(rest)
}

#[test]
fn the_page_on_tools_says_what_the_tables_say() {
    // covers: D11
    let mut text = std::fs::read_to_string(page()).expect("docs/tools.md");
    for tool in ToolName::ALL {
        let written = section(&text, tool).to_owned();
        let (_, rest) = written.split_once(MARK).expect("a mark");
        let (inner, _) = rest.split_once(END).expect("an end");
        let expected = format!("\n{}", block(tool.spec()));
        if std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1") {
            text = text.replace(&written, &written.replace(inner, &expected));
            std::fs::write(page(), &text).expect("docs/tools.md");
        } else {
            assert_eq!(inner, expected, "{}: UPDATE_GOLDEN=1 writes it anew", tool.as_str());
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
