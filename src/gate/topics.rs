//! Every topic, both ways (contract, section 2).

use crate::ids::{ClientId, DeviceId, GatewayId, SensorId};

/// The topics of one gateway.
#[derive(Clone, Debug)]
pub struct Topics {
    base: String,
}

impl Topics {
    /// The topics below `fieldgate/v1/{gateway}/`.
    pub fn new(gateway: &GatewayId) -> Topics {
        Topics { base: format!("fieldgate/v1/{gateway}") }
    }

    /// `fieldgate/v1/{gateway}`, without a slash at its end.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// The gateway's own state; retained, and its will.
    pub fn status(&self) -> String {
        format!("{}/status", self.base)
    }

    /// The tools; retained.
    pub fn catalog(&self) -> String {
        format!("{}/catalog", self.base)
    }

    /// A device's state; retained.
    pub fn device_status(&self, device: &DeviceId) -> String {
        format!("{}/device/{device}/status", self.base)
    }

    /// A sensor's reading; retained.
    pub fn reading(&self, device: &DeviceId, sensor: &SensorId) -> String {
        // No `format!`: a gateway makes a thousand of these a second.
        [self.base.as_str(), "/reading/", device.as_str(), "/", sensor.as_str()].concat()
    }

    /// All readings of a device, where they are published together; retained.
    pub fn readings(&self, device: &DeviceId) -> String {
        format!("{}/readings/{device}", self.base)
    }

    /// Where a caller's requests arrive.
    pub fn request(&self, client: &ClientId) -> String {
        format!("{}/rpc/{client}/request", self.base)
    }

    /// The filter that catches every caller's requests.
    pub fn all_requests(&self) -> String {
        format!("{}/rpc/+/request", self.base)
    }

    /// Where a caller's answers go unless it names another topic of its own.
    pub fn response(&self, client: &ClientId) -> String {
        format!("{}/rpc/{client}/response", self.base)
    }

    /// A copy of each structured result.
    pub fn result(&self, client: &ClientId, tool: &str) -> String {
        format!("{}/result/{client}/{tool}", self.base)
    }

    /// Whose request a topic is, if it is one of this gateway's request topics.
    pub fn requester(&self, topic: &str) -> Option<ClientId> {
        let rest = topic.strip_prefix(&self.base)?.strip_prefix("/rpc/")?;
        rest.strip_suffix("/request")?.parse().ok()
    }

    /// Whether a caller may have its answer there: inside its own `rpc/{client}/`, and not where requests arrive.
    pub fn may_answer_on(&self, client: &ClientId, topic: &str) -> bool {
        let own = topic.strip_prefix(&self.base).and_then(|rest| rest.strip_prefix("/rpc/"));
        let Some(rest) =
            own.and_then(|rest| rest.strip_prefix(client.as_str())).and_then(|rest| rest.strip_prefix('/'))
        else {
            return false;
        };
        !rest.is_empty() && rest != "request" && !rest.contains(['+', '#', '\0']) && topic.len() <= 512
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_is_known_by_its_topic_alone() {
        let topics = Topics::new(&"gw".parse().expect("a name"));
        let check = |topic: &str, expected: Option<&str>| {
            assert_eq!(topics.requester(topic).as_ref().map(ClientId::as_str), expected, "{topic}");
        };
        check("fieldgate/v1/gw/rpc/agent-1/request", Some("agent-1"));
        check("fieldgate/v1/gw/rpc/agent-1/response", None);
        check("fieldgate/v1/other/rpc/agent-1/request", None);
        check("fieldgate/v1/gw/rpc/a/b/request", None);
        check("fieldgate/v1/gw/rpc//request", None);
    }

    #[test]
    fn answers_stay_inside_the_callers_own_topics() {
        let topics = Topics::new(&"gw".parse().expect("a name"));
        let client: ClientId = "agent-1".parse().expect("a name");
        let check = |topic: &str, expected: bool| assert_eq!(topics.may_answer_on(&client, topic), expected, "{topic}");
        check("fieldgate/v1/gw/rpc/agent-1/response", true);
        check("fieldgate/v1/gw/rpc/agent-1/response/7", true);
        check("fieldgate/v1/gw/rpc/agent-1/request", false);
        check("fieldgate/v1/gw/rpc/agent-12/response", false);
        check("fieldgate/v1/gw/rpc/agent-2/response", false);
        check("fieldgate/v1/gw/rpc/agent-1/#", false);
        check("fieldgate/v1/gw/status", false);
    }
}
