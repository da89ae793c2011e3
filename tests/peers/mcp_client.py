"""The official Python MCP client over MQTT, for tests.

    mcp_client.py --broker 127.0.0.1:1883 --gateway gw-test --client agent-py --mode auto

`mode` goes to the client as it is: `auto` (what it does by default: discover, else the handshake), `legacy` (the handshake
of 2025) or a revision such as `2026-07-28`. The first line on standard output tells the revision that was agreed on. After
it, each line on standard input is an order, and each is answered by one line:

    {"list_tools": true}
    {"call": "get_sensor_reading", "arguments": {"sensor_id": "A_LINE1_042"}}
    {"calls": [["get_sensor_reading", {…}], ["list_sensors", {}]]}      side by side

The client checks structured results against the output schemas of the listed tools by itself, and says so as an error.
"""

import argparse
import asyncio
import json
import sys
import uuid
from contextlib import asynccontextmanager

import aiomqtt
import anyio
from mcp.client.client import Client
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCResponse, jsonrpc_message_adapter
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties


@asynccontextmanager
async def mqtt_transport(broker, gateway, client, expiry_s):
    """A transport of MCP messages over `fieldgate/v1/{gateway}/rpc/{client}/`: this page is all that a client needs."""
    host, port = broker.rsplit(":", 1)
    base = f"fieldgate/v1/{gateway}/rpc/{client}"
    to_session, read_stream = anyio.create_memory_object_stream(16)
    write_stream, from_session = anyio.create_memory_object_stream(16)
    # The id that belongs to each correlation. An answer that does not carry its request's correlation ends the client.
    awaited = {}

    async def receive(mqtt):
        async for message in mqtt.messages:
            parsed = jsonrpc_message_adapter.validate_json(message.payload)
            if isinstance(parsed, (JSONRPCResponse, JSONRPCError)):
                correlation = getattr(message.properties, "CorrelationData", None)
                if awaited.pop(correlation, None) != parsed.id:
                    raise RuntimeError(f"correlation {correlation!r} does not belong to {message.payload!r}")
            await to_session.send(SessionMessage(parsed))

    async def send(mqtt):
        async for outgoing in from_session:
            properties = Properties(PacketTypes.PUBLISH)
            properties.ResponseTopic = f"{base}/response"
            properties.CorrelationData = uuid.uuid4().bytes
            properties.MessageExpiryInterval = expiry_s
            properties.ContentType = "application/json"
            awaited[properties.CorrelationData] = getattr(outgoing.message, "id", None)
            payload = outgoing.message.model_dump_json(by_alias=True, exclude_unset=True)
            await mqtt.publish(f"{base}/request", payload, qos=1, properties=properties)

    async with aiomqtt.Client(host, int(port), identifier=client, protocol=aiomqtt.ProtocolVersion.V5) as mqtt:
        await mqtt.subscribe(f"{base}/response", qos=1)
        async with anyio.create_task_group() as tasks, to_session, read_stream, write_stream, from_session:
            tasks.start_soon(receive, mqtt)
            tasks.start_soon(send, mqtt)
            try:
                yield read_stream, write_stream
            finally:
                tasks.cancel_scope.cancel()


async def call(client, tool, arguments):
    try:
        result = await client.call_tool(tool, arguments)
    except Exception as error:  # Whatever the client finds wrong with an answer is what the test wants to know.
        return {"failed": f"{type(error).__name__}: {error}", "code": getattr(getattr(error, "error", None), "code", None)}
    return result.model_dump(mode="json", by_alias=True)


async def obey(client, order):
    if "list_tools" in order:
        listed = await client.list_tools()
        return {"tools": [tool.model_dump(mode="json", by_alias=True) for tool in listed.tools]}
    if "call" in order:
        return await call(client, order["call"], order.get("arguments", {}))
    if "calls" in order:
        return {"results": await asyncio.gather(*(call(client, tool, arguments) for tool, arguments in order["calls"]))}
    return {"failed": f"no such order: {order}"}


def say(line):
    print(json.dumps(line), flush=True)


async def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--broker", required=True)
    parser.add_argument("--gateway", required=True)
    parser.add_argument("--client", required=True)
    parser.add_argument("--mode", default="auto")
    parser.add_argument("--expiry-s", type=int, default=10)
    arguments = parser.parse_args()
    transport = mqtt_transport(arguments.broker, arguments.gateway, arguments.client, arguments.expiry_s)
    async with Client(transport, mode=arguments.mode, read_timeout_seconds=30) as client:
        server = client.server_info
        say({"protocol_version": client.protocol_version, "server": server.model_dump(mode="json") if server else None})
        orders = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
        while line := await orders.readline():
            say(await obey(client, json.loads(line)))


if __name__ == "__main__":
    asyncio.run(main())
