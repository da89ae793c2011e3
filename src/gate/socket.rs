//! The socket to the broker, shared by the MQTT client and the publisher of readings.
//!
//! A reading at QoS 0 needs nothing of the client: no packet identifier, no acknowledgement, no memory of it. Its way
//! through the client (two queues, an event, several copies) costs more than the rest of its way together. So its packet
//! goes into the stream between two packets of the client, and all readings of one answer go out in one write.
//!
//! Without TLS only: with it this socket carries what is encrypted already, and readings go through the client.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The bytes that wait for the socket. When there are as many, whoever sends waits.
const WAITING: usize = 64 * 1024;

/// The client's end. When it is dropped, the connection is over for both.
#[derive(Debug)]
pub struct Socket(Arc<Shared>);

/// The publisher's end.
#[derive(Clone, Debug)]
pub struct Lane(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    stream: TcpStream,
    out: Mutex<Out>,
}

/// What waits to be written.
#[derive(Debug, Default)]
struct Out {
    bytes: Vec<u8>,
    /// How many of `bytes` are written already.
    written: usize,
    /// Packets that wait for the end of the client's present one.
    aside: Vec<u8>,
    client: Boundary,
    closed: bool,
}

/// Two ends of one connection.
pub fn share(stream: TcpStream) -> (Socket, Lane) {
    let shared = Arc::new(Shared { stream, out: Mutex::default() });
    (Socket(Arc::clone(&shared)), Lane(shared))
}

impl Out {
    fn is_full(&self) -> bool {
        self.bytes.len() - self.written + self.aside.len() >= WAITING
    }

    fn push_client(&mut self, bytes: &[u8]) {
        self.client.follow(bytes);
        self.bytes.extend_from_slice(bytes);
        if self.client.is_between_packets() {
            self.bytes.append(&mut self.aside);
        }
    }

    fn push_packets(&mut self, packets: &[u8]) {
        let place = if self.client.is_between_packets() { &mut self.bytes } else { &mut self.aside };
        place.extend_from_slice(packets);
    }

    fn wrote(&mut self, count: usize) {
        self.written += count;
        if self.written == self.bytes.len() {
            self.bytes.clear();
            self.written = 0;
        }
    }
}

impl Shared {
    fn out(&self) -> MutexGuard<'_, Out> {
        self.out.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Writes what the socket takes now; whether that was everything.
    fn write_now(&self) -> io::Result<bool> {
        let mut out = self.out();
        while out.written < out.bytes.len() {
            match self.stream.try_write(&out.bytes[out.written..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => out.wrote(count),
                Err(err) if err.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(err) => return Err(err),
            }
        }
        Ok(true)
    }

    fn poll_write_all(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.write_now()? {
            ready!(self.stream.poll_write_ready(cx))?;
        }
        Poll::Ready(Ok(()))
    }
}

impl Lane {
    /// Sends whole packets in one piece, between two of the client's. Waits while the socket takes no more.
    pub async fn send(&self, packets: &[u8]) -> io::Result<()> {
        loop {
            {
                let mut out = self.0.out();
                if out.closed {
                    return Err(ErrorKind::NotConnected.into());
                }
                if !out.is_full() {
                    out.push_packets(packets);
                    break;
                }
            }
            self.write_all().await?;
        }
        self.write_all().await
    }

    async fn write_all(&self) -> io::Result<()> {
        while !self.0.write_now()? {
            self.0.stream.writable().await?;
        }
        Ok(())
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let stream = &self.0.stream;
        loop {
            ready!(stream.poll_read_ready(cx))?;
            match stream.try_read_buf(buffer) {
                Ok(_) => return Poll::Ready(Ok(())),
                Err(err) if err.kind() == ErrorKind::WouldBlock => {}
                Err(err) => return Poll::Ready(Err(err)),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.0.out().is_full() {
            ready!(self.0.poll_write_all(cx))?;
        }
        self.0.out().push_client(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_write_all(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.0.poll_write_all(cx))?;
        Poll::Ready(SockRef::from(&self.0.stream).shutdown(std::net::Shutdown::Write))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.0.out().closed = true;
        // The publisher may hold its end a little longer; the broker shall see the end now. Already ended is fine.
        let _ = SockRef::from(&self.0.stream).shutdown(std::net::Shutdown::Both);
    }
}

/// Follows a stream of MQTT packets and knows where one ends (MQTT 5, section 2.1).
#[derive(Debug, Default)]
struct Boundary {
    at: Within,
}

#[derive(Clone, Copy, Debug, Default)]
enum Within {
    #[default]
    Between,
    Length {
        so_far: usize,
        shift: u32,
    },
    Body {
        left: usize,
    },
}

impl Boundary {
    fn is_between_packets(&self) -> bool {
        matches!(self.at, Within::Between)
    }

    fn follow(&mut self, mut bytes: &[u8]) {
        while let Some((first, rest)) = bytes.split_first() {
            match self.at {
                Within::Between => {
                    self.at = Within::Length { so_far: 0, shift: 0 };
                    bytes = rest;
                }
                Within::Length { so_far, shift } => {
                    let so_far = so_far | usize::from(first & 0x7F) << shift;
                    self.at = match (first & 0x80, so_far) {
                        (0, 0) => Within::Between,
                        (0, left) => Within::Body { left },
                        // The client never writes a length of more than four bytes.
                        _ => Within::Length { so_far, shift: (shift + 7).min(21) },
                    };
                    bytes = rest;
                }
                Within::Body { left } => {
                    let taken = left.min(bytes.len());
                    self.at = if taken == left { Within::Between } else { Within::Body { left: left - taken } };
                    bytes = &bytes[taken..];
                }
            }
        }
    }
}

/// Appends a retained PUBLISH of JSON at QoS 0 (MQTT 5, section 3.3).
pub fn put_publish(packets: &mut Vec<u8>, topic: &str, payload: &[u8]) {
    const RETAINED_AT_QOS_0: u8 = 0x31;
    // Payload Format Indicator 1 (UTF-8), Content Type.
    const PROPERTIES: &[u8] = b"\x15\x01\x01\x03\x00\x10application/json";
    let remaining = 2 + topic.len() + PROPERTIES.len() + payload.len();
    packets.push(RETAINED_AT_QOS_0);
    let mut rest = remaining;
    loop {
        let more = if rest > 0x7F { 0x80 } else { 0 };
        packets.push((rest & 0x7F) as u8 | more);
        rest >>= 7;
        if rest == 0 {
            break;
        }
    }
    // Topics are made of names of at most 48 bytes.
    packets.extend_from_slice(&(topic.len() as u16).to_be_bytes());
    packets.extend_from_slice(topic.as_bytes());
    packets.extend_from_slice(PROPERTIES);
    packets.extend_from_slice(payload);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rumqttc::mqttbytes::v5::{Packet, Publish};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    fn packet(payload: usize) -> Vec<u8> {
        let mut packet = Vec::new();
        put_publish(&mut packet, "fieldgate/v1/gw/reading/d/s", &vec![b'x'; payload]);
        packet
    }

    fn parse(bytes: &[u8]) -> Publish {
        match Packet::read(&mut bytes::BytesMut::from(bytes), None) {
            Ok(Packet::Publish(publish)) => publish,
            other => panic!("no PUBLISH: {other:?}"),
        }
    }

    #[test]
    fn a_packet_is_what_an_mqtt_client_reads() {
        for length in [0, 80, 81, 127, 128, 16_300, 16_400] {
            let publish = parse(&packet(length));
            let properties = publish.properties.expect("properties");
            assert_eq!((publish.retain, publish.payload.len()), (true, length));
            assert_eq!(publish.topic.as_ref(), b"fieldgate/v1/gw/reading/d/s");
            assert_eq!(properties.content_type.as_deref(), Some("application/json"));
            assert_eq!(properties.payload_format_indicator, Some(1));
        }
    }

    #[test]
    fn the_end_of_a_packet_is_found_however_it_is_cut() {
        let stream: Vec<u8> = [packet(3), vec![0xC0, 0x00], packet(20_000), packet(200)].concat();
        let ends = [packet(3).len(), packet(3).len() + 2, packet(3).len() + 2 + packet(20_000).len(), stream.len()];
        let mut boundary = Boundary::default();
        for (place, byte) in stream.iter().enumerate() {
            boundary.follow(std::slice::from_ref(byte));
            assert_eq!(boundary.is_between_packets(), ends.contains(&(place + 1)), "at {place}");
        }
        let mut boundary = Boundary::default();
        boundary.follow(&stream);
        assert!(boundary.is_between_packets());
    }

    #[tokio::test]
    async fn readings_go_between_the_packets_of_the_client_and_never_into_one() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (stream, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (mut socket, lane) = share(stream.expect("connected"));
        let mut broker = accepted.expect("accepted").0;
        let (client, reading) = (packet(500), packet(7));
        socket.write_all(&client[..100]).await.expect("written");
        lane.send(&reading).await.expect("kept aside");
        socket.write_all(&client[100..]).await.expect("written");
        socket.flush().await.expect("flushed");
        lane.send(&reading).await.expect("sent");
        let mut seen = vec![0; client.len() + 2 * reading.len()];
        broker.read_exact(&mut seen).await.expect("all of it");
        assert_eq!(seen, [client, reading.clone(), reading.clone()].concat());
        drop(socket);
        assert_eq!(broker.read(&mut [0]).await.expect("the end"), 0);
        assert!(lane.send(&reading).await.is_err());
    }
}
