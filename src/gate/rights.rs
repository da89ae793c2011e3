//! Who may publish and read what on the embedded broker. A broker elsewhere needs the same rules in its own access list.

use crate::gate::topics::Topics;
use crate::ids::{ClientId, GatewayId};

/// What everyone may read, below `fieldgate/v1/{gateway}/`. Nothing here holds a caller's words.
const PUBLIC: [&str; 5] = ["status", "catalog", "device/#", "reading/#", "readings/#"];

/// The rights of clients that are not the gateway.
#[derive(Clone, Debug)]
pub struct Rights {
    topics: Topics,
}

impl Rights {
    /// The rights on this gateway's topics.
    pub fn new(gateway: &GatewayId) -> Rights {
        Rights { topics: Topics::new(gateway) }
    }

    /// Whether a client may publish there: to its own request topic, and nowhere else. One whose client id is no name
    /// has no request topic, and can only read.
    pub fn may_publish(&self, client_id: &str, topic: &str) -> bool {
        client_id.parse::<ClientId>().is_ok_and(|client| self.topics.request(&client) == topic)
    }

    /// Whether a client may have everything that a filter catches: no topic outside of what it may read, so that a wide
    /// wildcard is refused as a whole and leaks nothing.
    pub fn may_subscribe(&self, client_id: &str, filter: &str) -> bool {
        let base = self.topics.base();
        if PUBLIC.iter().any(|public| covers(&format!("{base}/{public}"), filter)) {
            return true;
        }
        client_id.parse::<ClientId>().is_ok_and(|client| {
            covers(&format!("{base}/rpc/{client}/#"), filter) || covers(&format!("{base}/result/{client}/#"), filter)
        })
    }
}

/// Whether every topic that `filter` catches is caught by `wide`.
fn covers(wide: &str, filter: &str) -> bool {
    let mut levels = filter.split('/');
    for allowed in wide.split('/') {
        if allowed == "#" {
            return true;
        }
        match levels.next() {
            Some("#") | None => return false,
            Some(level) if allowed == "+" || level == allowed => {}
            Some(_) => return false,
        }
    }
    levels.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rights() -> Rights {
        Rights::new(&"gw".parse().expect("a name"))
    }

    #[test]
    fn a_client_publishes_to_its_own_request_topic_alone() {
        let check = |client: &str, topic: &str, expected: bool| {
            assert_eq!(rights().may_publish(client, topic), expected, "{client} to {topic}");
        };
        check("agent-1", "fieldgate/v1/gw/rpc/agent-1/request", true);
        check("agent-1", "fieldgate/v1/gw/rpc/agent-2/request", false);
        check("agent-1", "fieldgate/v1/gw/rpc/agent-1/response", false);
        check("agent-1", "fieldgate/v1/other/rpc/agent-1/request", false);
        check("agent-1", "fieldgate/v1/gw/status", false);
        check("agent-1", "fieldgate/v1/gw/reading/press-plc/A_LINE1_042", false);
        check("agent-1", "fieldgate/v1/gw/escalation/e1/ack", false);
        check("agent-1", "fieldgate/v1/gw/approval/c1", false);
        check("a/b", "fieldgate/v1/gw/rpc/a/b/request", false);
        check("+", "fieldgate/v1/gw/rpc/+/request", false);
    }

    #[test]
    fn a_client_reads_what_is_public_and_its_own() {
        let check = |client: &str, filter: &str, expected: bool| {
            assert_eq!(rights().may_subscribe(client, filter), expected, "{client} to {filter}");
        };
        check("agent-1", "fieldgate/v1/gw/status", true);
        check("agent-1", "fieldgate/v1/gw/catalog", true);
        check("agent-1", "fieldgate/v1/gw/device/+/status", true);
        check("agent-1", "fieldgate/v1/gw/device/#", true);
        check("agent-1", "fieldgate/v1/gw/reading/press-plc/+", true);
        check("agent-1", "fieldgate/v1/gw/readings/#", true);
        check("agent-1", "fieldgate/v1/gw/rpc/agent-1/response", true);
        check("agent-1", "fieldgate/v1/gw/rpc/agent-1/#", true);
        check("agent-1", "fieldgate/v1/gw/result/agent-1/+", true);
        check("no name", "fieldgate/v1/gw/reading/#", true);

        check("agent-1", "#", false);
        check("agent-1", "+/+/+/rpc/#", false);
        check("agent-1", "fieldgate/v1/gw/#", false);
        check("agent-1", "fieldgate/v1/gw/+", false);
        check("agent-1", "fieldgate/v1/+/status", false);
        check("agent-1", "fieldgate/v1/gw/rpc/+/request", false);
        check("agent-1", "fieldgate/v1/gw/rpc/+/response", false);
        check("agent-1", "fieldgate/v1/gw/rpc/agent-2/response", false);
        check("agent-1", "fieldgate/v1/gw/+/agent-2/response", false);
        check("agent-1", "fieldgate/v1/gw/+/press-plc/status", false);
        check("agent-1", "fieldgate/v1/gw/command/+", false);
        check("agent-1", "$share/g/fieldgate/v1/gw/rpc/+/request", false);
        check("agent-1", "$share/g/fieldgate/v1/gw/status", false);
        check("agent-1", "$SYS/#", false);
        check("no name", "fieldgate/v1/gw/rpc/no name/#", false);
        check("+", "fieldgate/v1/gw/rpc/+/#", false);
    }
}
