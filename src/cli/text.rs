//! JSON for people: one line per member, tables for lists of alike objects, durations and times as they are.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// The widest column of a table, in characters.
const WIDEST: usize = 44;

/// A result as indented lines.
pub fn pretty(value: &Value) -> String {
    let mut text = String::new();
    write_value(&mut text, value, 0);
    text
}

fn write_value(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| write_member(text, name, value, indent)),
        Value::Array(items) => write_items(text, items, indent),
        other => {
            let _ = writeln!(text, "{:indent$}{}", "", scalar(other));
        }
    }
}

fn write_member(text: &mut String, name: &str, value: &Value, indent: usize) {
    let _ = match value {
        Value::Object(members) if members.is_empty() => writeln!(text, "{:indent$}{name}: none", ""),
        Value::Array(items) if items.is_empty() => writeln!(text, "{:indent$}{name}: none", ""),
        Value::Array(items) if items.iter().all(|item| !item.is_object() && !item.is_array()) => {
            let list = items.iter().map(scalar).collect::<Vec<_>>().join(", ");
            writeln!(text, "{:indent$}{name}: {list}", "")
        }
        Value::Object(_) | Value::Array(_) => {
            let _ = writeln!(text, "{:indent$}{name}:", "");
            write_value(text, value, indent + 2);
            Ok(())
        }
        other => writeln!(text, "{:indent$}{name}: {}", "", scalar(other)),
    };
}

fn write_items(text: &mut String, items: &[Value], indent: usize) {
    let rows: Vec<&Map<String, Value>> = items.iter().filter_map(Value::as_object).collect();
    let flat = |row: &&Map<String, Value>| row.values().all(|value| !value.is_object() && !value.is_array());
    if rows.len() == items.len() && rows.iter().all(flat) {
        let mut columns: Vec<&str> = Vec::new();
        for name in rows.iter().flat_map(|row| row.keys()) {
            if !columns.contains(&name.as_str()) {
                columns.push(name);
            }
        }
        let cells = |row: &&Map<String, Value>| {
            columns.iter().map(|name| row.get(*name).map_or(String::new(), scalar)).collect()
        };
        text.push_str(&table(&columns, &rows.iter().map(cells).collect::<Vec<_>>(), indent));
        return;
    }
    for item in items {
        let start = text.len();
        write_value(text, item, indent + 2);
        if text.len() > start + indent {
            text.replace_range(start + indent..start + indent + 1, "-");
        }
    }
}

/// A table with a head, its columns as wide as their widest cell.
pub fn table(columns: &[&str], rows: &[Vec<String>], indent: usize) -> String {
    let width = |place: usize| {
        let cells = rows.iter().filter_map(|row| row.get(place)).map(|cell| cell.chars().count());
        cells.chain([columns[place].chars().count()]).max().unwrap_or(0).min(WIDEST)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> =
            cells.zip(&widths).map(|(cell, width)| format!("{:width$}", shorten(cell, *width))).collect();
        format!("{:indent$}{}\n", "", padded.join("  ").trim_end())
    };
    let mut text = line(&mut columns.iter().copied());
    rows.iter().for_each(|row| text.push_str(&line(&mut row.iter().map(String::as_str))));
    text
}

fn shorten(cell: &str, width: usize) -> String {
    if cell.chars().count() <= width {
        return cell.to_owned();
    }
    cell.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// A single value as people write it.
pub fn scalar(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn members_are_lines_and_alike_objects_are_a_table() {
        let value = json!({"value": 47.3, "items": [{"id": "a", "n": 1}, {"id": "bcd", "n": null}], "none": []});
        assert_eq!(pretty(&value), "items:\n  id   n\n  a    1\n  bcd  -\nnone: none\nvalue: 47.3\n");
    }

    #[test]
    fn nested_items_are_marked() {
        let value = json!([{"id": "a", "reading": {"value": 1}}]);
        assert_eq!(pretty(&value), "- id: a\n  reading:\n    value: 1\n");
    }

    #[test]
    fn a_long_cell_is_cut_and_says_so() {
        let text = table(&["text"], &[vec!["x".repeat(60)]], 0);
        assert!(text.lines().nth(1).is_some_and(|line| line.ends_with('…') && line.chars().count() == WIDEST));
    }
}
