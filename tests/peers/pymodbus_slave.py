"""A Modbus slave made of pymodbus, for tests: over TCP, or as an RTU slave on a serial line.

    pymodbus_slave.py --units UNITS.json --tcp 127.0.0.1:0
    pymodbus_slave.py --units UNITS.json --serial /dev/pts/3 --baud 19200

UNITS.json lists what each unit holds; pymodbus turns the values into registers, so that our decoding is checked by
somebody else's encoding:

    {"1": [{"table": "holding", "address": 100, "type": "f32", "value": 47.3},
           {"table": "input", "address": 0, "type": "moment"},
           {"table": "coil", "address": 7, "type": "bool", "value": true}]}

A `moment` is an u64 that holds, whenever it is read, the milliseconds since 1970 at which it is served.

The first line on standard output says where the slave listens. After it, each line on standard input is an order, and
each is answered by one line when it is carried out:

    {"set": {"unit": 1, "table": "holding", "address": 100, "type": "f32", "value": 50.0}}
    {"silent": [1]}                            requests to these units are taken and never answered
    {"exception": {"unit": 1, "code": 2}}      every request to the unit is answered with this exception
    {"answer": [1]}                            these units answer again
    {"close": true}, {"listen": true}          refuse connections and drop those there are; take them again
    {"count": true}                            {"requests": 12, "writes": 0, "by_unit": {"1": 12}}

The slave ends when its standard input ends, so a test that dies leaves none behind.
"""

import argparse
import asyncio
import functools
import json
import logging
import sys
import time

from pymodbus.client.mixin import ModbusClientMixin
from pymodbus.constants import ExcCodes
from pymodbus.framer import FramerType
from pymodbus.pdu.device import ModbusDeviceIdentification
from pymodbus.server import ModbusSerialServer, ModbusTcpServer
from pymodbus.simulator import DataType, SimData, SimDevice

TABLES = ("coil", "discrete", "holding", "input")
WRITE_CODES = {5, 6, 15, 16, 22, 23}
# The function codes by which pymodbus finds a table when its own store is changed.
STORE_CODES = {"coil": 15, "discrete": 2, "holding": 16, "input": 4}
READ_CODES = {"coil": 1, "discrete": 2, "holding": 3, "input": 4}
WIRE_TYPES = {name: getattr(ModbusClientMixin.DATATYPE, full) for name, full in {
    "u16": "UINT16", "i16": "INT16", "u32": "UINT32", "i32": "INT32", "u64": "UINT64", "i64": "INT64",
    "f32": "FLOAT32", "f64": "FLOAT64", "string": "STRING"}.items()}


def to_registers(entry):
    """The registers, or bits, that hold an entry's value."""
    kind, value = entry["type"], entry.get("value")
    if kind == "bool":
        return [value]
    if kind == "words":
        return value
    if kind == "moment":
        kind, value = "u64", int(time.time() * 1000)
    return ModbusClientMixin.convert_to_registers(value, WIRE_TYPES[kind])


class Plant:
    """What the units hold, how they behave, and what was asked of them."""

    def __init__(self, units):
        self.units = {int(unit): entries for unit, entries in units.items()}
        self.silent = set()
        self.exceptions = {}
        self.requests = {unit: 0 for unit in self.units}
        self.writes = 0
        self.setting = False

    def devices(self):
        return [SimDevice(id=unit, simdata=self.tables(entries), action=functools.partial(self.act, unit))
                for unit, entries in self.units.items()]

    @staticmethod
    def tables(entries):
        """pymodbus wants every table to hold something; an unused one gets a place that nobody asks for."""
        tables = []
        for table in TABLES:
            kind = DataType.BITS if table in ("coil", "discrete") else DataType.REGISTERS
            data = [SimData(entry["address"], values=to_registers(entry), datatype=kind)
                    for entry in entries if entry["table"] == table]
            tables.append(data or [SimData(65520, values=[False] * 16 if kind == DataType.BITS else [0], datatype=kind)])
        return tuple(tables)

    async def act(self, unit, function, start, address, count, registers, values):
        """Called by pymodbus for each access, before it answers."""
        if self.setting:
            return None
        if function in WRITE_CODES or values is not None:
            self.writes += 1
        for entry in self.units[unit]:
            inside = address <= entry["address"] and entry["address"] + 4 <= address + count
            if entry["type"] == "moment" and READ_CODES[entry["table"]] == function and inside:
                place = entry["address"] - start
                registers[place:place + 4] = to_registers(entry)
        return self.exceptions.get(unit)


class Slave:
    """The server around the plant."""

    def __init__(self, arguments, plant):
        self.arguments = arguments
        self.plant = plant
        self.server = None
        self.port = None

    async def listen(self):
        identity = ModbusDeviceIdentification(info={0: "Somebody Else", 1: "PM-16", 2: "3.16"})
        common = {"trace_packet": self.trace_packet, "trace_pdu": self.trace_pdu, "ignore_missing_devices": True,
                  "identity": identity}
        if self.arguments.serial:
            self.server = ModbusSerialServer(self.plant.devices(), framer=FramerType.RTU, port=self.arguments.serial,
                                             baudrate=self.arguments.baud, **common)
        else:
            host, port = self.arguments.tcp.rsplit(":", 1)
            address = (host, self.port or int(port))
            self.server = ModbusTcpServer(self.plant.devices(), address=address, **common)
        await self.server.serve_forever(background=True)
        if not self.arguments.serial:
            self.port = self.server.transport.sockets[0].getsockname()[1]

    def trace_pdu(self, sending, pdu):
        """Sees every whole message both ways."""
        if not sending:
            self.plant.requests[pdu.dev_id] = self.plant.requests.get(pdu.dev_id, 0) + 1
        return pdu

    def trace_packet(self, sending, data):
        """Sees the bytes both ways: the unit stands first on a serial line, and after the header over TCP."""
        place = 0 if self.arguments.serial else 6
        # pymodbus answers for units that do not exist, too; a line is silent there.
        answers = data[place] in self.plant.units and data[place] not in self.plant.silent
        return data if answers or not sending else b""

    async def obey(self, order):
        plant = self.plant
        if "set" in order:
            entry = order["set"]
            known = [known for known in plant.units[entry["unit"]]
                     if (known["table"], known["address"]) == (entry["table"], entry["address"])]
            known[0].update(value=entry["value"])
            plant.setting = True
            await self.server.async_setValues(entry["unit"], STORE_CODES[entry["table"]], entry["address"],
                                              to_registers(entry))
            plant.setting = False
        elif "silent" in order:
            plant.silent.update(order["silent"])
        elif "exception" in order:
            plant.exceptions[order["exception"]["unit"]] = ExcCodes(order["exception"]["code"])
        elif "answer" in order:
            plant.silent.difference_update(order["answer"])
            for unit in order["answer"]:
                plant.exceptions.pop(unit, None)
        elif "close" in order:
            await self.server.shutdown()
        elif "listen" in order:
            await self.listen()
        elif "count" in order:
            requests = {str(unit): count for unit, count in plant.requests.items()}
            return {"requests": sum(requests.values()), "writes": plant.writes, "by_unit": requests}
        else:
            return {"error": f"no such order: {order}"}
        return {"done": True, "at_ms": int(time.time() * 1000)}


def say(line):
    print(json.dumps(line), flush=True)


async def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--units", required=True)
    parser.add_argument("--tcp")
    parser.add_argument("--serial")
    parser.add_argument("--baud", type=int, default=19200)
    arguments = parser.parse_args()
    # pymodbus logs to standard error by itself; what it says of broken frames helps when a test fails.
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    with open(arguments.units, encoding="utf-8") as file:
        slave = Slave(arguments, Plant(json.load(file)))
    await slave.listen()
    say({"listening": arguments.serial or f"127.0.0.1:{slave.port}", "port": slave.port})

    orders = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    while line := await orders.readline():
        try:
            say(await slave.obey(json.loads(line)))
        except Exception as error:  # An order that fails must not look like one that is still running.
            say({"error": repr(error)})


if __name__ == "__main__":
    asyncio.run(main())
