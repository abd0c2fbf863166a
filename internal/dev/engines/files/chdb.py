"""Serves chdb, ClickHouse as a Python package, over the HTTP interface of a ClickHouse server, as far as clickhouse-go
and the tests of this repository use it: one user, default, without a password, no ON CLUSTER, no sessions, no external
tables and no HTTP compression. Each request runs on its own connection, which would keep settings and failed queries;
an INSERT whose body was cut off is cancelled, not committed.

chdb.py PATH PORT PONG [GRANT ...]: with grants, the user has no other right."""
import html, os, re, signal, struct, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import lz4.block
from chdb import _chdb, connect
from clickhouse_cityhash.cityhash import CityHash128

USERS = """<clickhouse><profiles><default/></profiles><quotas><default/></quotas><users><default><password></password>
<networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota><grants>%s</grants></default></users>
</clickhouse>"""
path, port, pong, grants = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]
_chdb.set_signal_handlers_enabled(False)
first = path
if grants:  # the engine reads its configuration at its first connection, which stays open: the engine stops with its last
    users, config = path + ".users.xml", path + ".config.xml"
    with open(users, "w") as f:
        f.write(USERS % "".join("<query>%s</query>" % html.escape(g) for g in grants))
    with open(config, "w") as f:
        f.write("<clickhouse><users_config>%s</users_config></clickhouse>" % users)
    first += "?config-file=" + config
keep = connect(first)
version, timezone = keep.query("SELECT version(), timezone()", "TabSeparated").bytes().decode().split()

# What the server itself reads; all other parameters are settings.
PARAMETERS = """query database default_format client_protocol_version compress decompress user password quota_key
query_id session_id session_timeout session_check stacktrace wait_end_of_query buffer_size role""".split()
INSERT = re.compile(r"(?is)^(\s*INSERT\s.*)\bFORMAT\s+(\w+)\s*;?\s*$")  # it ends before its data
TAG = "docgaugeexceptio"  # in the place of a server's random word, about an exception after the first block
STATUS = {**dict.fromkeys((516, 192, 193), 403), **dict.fromkeys((62, 6, 27, 33, 36, 53, 117), 400),
          **dict.fromkeys((46, 47, 50, 56, 60, 73, 81, 115), 404), 48: 501}


class CutOff(Exception):
    pass


def string(text):
    return bytes([len(text)]) + text.encode()


def hello(revision):
    """The answer to the first query of a connection: a Native block at the client's revision. The client reads every
    later one at the revision that it names: 0, which is how the library writes Native."""
    info = b"\x01\x00\x02\xff\xff\xff\xff\x00" if revision else b""
    flag = b"\x00" if revision >= 54454 else b""  # a column's own serialization
    columns = (("displayName()", "String", string("chdb")), ("version()", "String", string(version)),
               ("revision()", "UInt32", bytes(4)), ("timezone()", "String", string(timezone)))
    return info + b"\x04\x01" + b"".join(string(n) + string(t) + flag + data for n, t, data in columns)


def framed(data):
    """data in frames of ClickHouse's own compression."""
    for at in range(0, len(data), 1 << 20):
        piece = data[at:at + (1 << 20)]
        packed = lz4.block.compress(piece, store_size=False)
        packed = struct.pack("<BII", 0x82, len(packed) + 9, len(piece)) + packed
        sum = CityHash128(packed)
        yield struct.pack("<QQ", sum >> 64, sum & (1 << 64) - 1) + packed


def unframed(read):
    while head := read(25, True):
        high, low, method, packed, plain = struct.unpack("<QQBII", head)
        data = read(packed - 9)
        if method not in (0x82, 0x02) or CityHash128(head[16:] + data) != high << 64 | low:
            raise CutOff("a broken frame")
        yield lz4.block.decompress(data, uncompressed_size=plain) if method == 0x82 else data


def quote(text, q):
    return q + text.replace("\\", "\\\\").replace(q, "\\" + q) + q


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    busy = 0
    lock = threading.Lock()

    def log_message(self, *_):
        pass

    def chunks(self):
        """The body, piece by piece."""
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            left = int(self.headers.get("Content-Length", 0))
            while left:
                piece = self.rfile.read1(min(left, 1 << 20))
                if not piece:
                    raise CutOff("the body broke off")
                left -= len(piece)
                yield piece
            return
        while True:
            line = self.rfile.readline()
            if not line.endswith(b"\n"):
                raise CutOff("the body broke off")
            size = int(line.split(b";")[0], 16)
            piece = self.rfile.read(size + 2)
            if len(piece) < size + 2:
                raise CutOff("the body broke off")
            if not size:
                return
            yield piece[:-2]

    def body(self):
        pieces, buffer = self.pieces, bytearray()

        def read(n, end=False):
            while len(buffer) < n:
                piece = next(pieces, None)
                if piece is None:
                    if end and not buffer:
                        return b""
                    raise CutOff("a frame broke off")
                buffer.extend(piece)
            data = bytes(buffer[:n])
            del buffer[:n]
            return data
        return unframed(read) if self.query.get("decompress") == "1" else pieces

    def do_GET(self):
        self.query = {k: v[0] for k, v in parse_qs(urlsplit(self.path).query, keep_blank_values=True).items()}
        self.started, self.plain = False, {"X-ClickHouse-Server-Display-Name": "chdb",
                                           "X-ClickHouse-Timezone": timezone}
        self.pieces = self.chunks()
        if urlsplit(self.path).path == "/ping" or self.command == "GET" and not self.query:
            return self.whole(200, pong + "\n")
        with Handler.lock:
            Handler.busy += 1
        try:
            self.run()
            if self.started:
                self.wfile.write(b"0\r\n\r\n")
            else:  # clickhouse-go would wait for a block
                self.whole(200, "")
        except OSError:
            self.close_connection = True
        except Exception as e:
            self.fail(str(e))
        finally:
            with Handler.lock:
                Handler.busy -= 1

    do_POST = do_GET

    def whole(self, status, text, **headers):
        self.send_response(status)
        for name, value in {**self.plain, **headers, "Content-Length": str(len(text.encode()))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text.encode())

    def fail(self, text):
        try:  # a client that is still sending would not see the answer
            for _ in self.pieces:
                pass
        except (CutOff, OSError):
            self.close_connection = True
        at = re.search(r"Code: (\d+)\.", text)
        code, text = (int(at[1]), text[at.start():]) if at else (1000, "Code: 1000. DB::Exception: %s. (POCO_EXCEPTION)" % text)
        try:
            if self.started:
                self.piece(("\r\n__exception__\r\n%s\r\n%s\n%d %s\r\n__exception__\r\n" % (
                    TAG, text, len(text.encode()) + 1, TAG)).encode())
                self.wfile.write(b"0\r\n\r\n")
            else:
                self.close_connection, self.plain["Connection"] = True, "close"
                self.whole(STATUS.get(code, 500), text + "\n", **{"X-ClickHouse-Exception-Code": str(code)})
        except OSError:
            self.close_connection = True

    def piece(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def block(self, data):
        """Sends one piece of the result. Nothing is sent before the first, so that an error until then has its status."""
        if not data:
            return
        if not self.started:
            self.send_response(200)
            for name, value in {**self.plain, "Content-Type": "application/octet-stream",
                                "X-ClickHouse-Exception-Tag": TAG, "Transfer-Encoding": "chunked"}.items():
                self.send_header(name, value)
            self.end_headers()
            self.started = True
        for piece in framed(data) if self.query.get("compress") == "1" else [data]:
            self.piece(piece)

    def run(self):
        q, sql, data = self.query, self.query.get("query", ""), None
        format = q.get("default_format") or self.headers.get("X-ClickHouse-Format") or "TabSeparated"
        self.plain["X-ClickHouse-Format"] = format
        if insert := INSERT.match(sql):
            data = self.body()
        else:
            sql += b"".join(self.body()).decode()
        if not sql.strip():
            raise Exception("Code: 62. DB::Exception: Syntax error: empty query. (SYNTAX_ERROR)")
        connection = connect(path)
        try:
            if database := q.get("database") or self.headers.get("X-ClickHouse-Database"):
                connection.query("USE " + quote(database, "`"))
            for name, value in q.items():
                if name not in PARAMETERS:
                    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
                        raise Exception("Code: 115. DB::Exception: Unknown setting '%s'. (UNKNOWN_SETTING)" % name)
                    connection.query("SET %s = %s" % (name, quote(value, "'")))
            word = sql.lstrip(" \t\r\n(").split(" ")[0].upper()
            if data is not None:
                stream = connection.send_insert(insert[1], insert[2])
                try:
                    for piece in data:
                        stream.append(piece)
                except BaseException:
                    stream.cancel()
                    raise
                stream.finish()
            elif format == "Native" and sql == "SELECT displayName(), version(), revision(), timezone()":
                self.block(hello(int(q.get("client_protocol_version", 0))))
            elif format == "Native" and word in ("SELECT", "WITH"):  # it may be long
                for part in connection.send_query(sql, format):
                    self.block(part.bytes())
            else:
                self.block(connection.query(sql, format).bytes())
        finally:
            connection.close()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


server = Server(("127.0.0.1", port), Handler)
signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
server.serve_forever(0.1)
end = time.monotonic() + 5  # for requests in flight
while Handler.busy and time.monotonic() < end:
    time.sleep(0.01)
# The engine is not closed: the kernel closes the files, and parts are renamed into place when they are complete.
os._exit(0)
