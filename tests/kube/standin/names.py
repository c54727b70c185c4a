"""A DNS server for headless Services: NAME.NAMESPACE.svc.cluster.local is the
addresses of its pods, HOST.NAME.NAMESPACE.svc.cluster.local that of one."""

import socket
import struct
import threading

A, IN = 1, 1
NO_SUCH_NAME = 3
SECONDS = 5  # that an answer counts, as in a cluster


class NameServer:
    def __init__(self, address, lookup):
        """`lookup`: name without the dot at its end to a list of addresses, or
        None for a name that is not there."""
        self.lookup = lookup
        self.stopping = False
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((address, 53))
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def stop(self):
        # What is no question wakes the thread up.
        self.stopping = True
        self.socket.sendto(b"", self.socket.getsockname())
        self.thread.join()
        self.socket.close()

    def _serve(self):
        while not self.stopping:
            query, client = self.socket.recvfrom(4096)
            try:
                self.socket.sendto(self.answer(query), client)
            except (OSError, IndexError, struct.error):
                pass  # the client is gone, or it was no question

    def answer(self, query):
        number, flags = struct.unpack(">HH", query[:4])
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode().lower())
            at += 1 + query[at]
        kind, _ = struct.unpack(">HH", query[at + 1 : at + 5])
        found = self.lookup(".".join(labels))
        # A name that has addresses of another kind only is there all the same.
        addresses = found if found and kind == A else []
        code = NO_SUCH_NAME if found is None else 0
        head = struct.pack(">HHHHHH", number, 0x8580 | (flags & 0x100) | code, 1,
                           len(addresses), 0, 0)
        records = b"".join(
            struct.pack(">HHHIH", 0xC00C, A, IN, SECONDS, 4) + socket.inet_aton(each)
            for each in addresses
        )
        return head + query[12 : at + 5] + records


def service_lookup(services, pods):
    """A `lookup` over Services as they are rendered and a function that lists the
    pods of the moment."""
    by_name = {
        f"{service['metadata']['name']}.default.svc.cluster.local": service["spec"]
        for service in services
    }

    def lookup(name):
        spec = by_name.get(name)
        if spec is not None:
            found = [pod.address for pod in pods() if _backs(spec, pod)]
            return found or None  # a headless Service without pods has no name
        host, _, rest = name.partition(".")
        spec = by_name.get(rest)
        if spec is None:
            return None
        found = [pod.address for pod in pods()
                 if _backs(spec, pod) and pod.hostname == host
                 and f"{pod.spec.get('subdomain')}.default.svc.cluster.local" == rest]
        return found or None

    return lookup


def _backs(spec, pod):
    published = pod.ready or spec.get("publishNotReadyAddresses", False)
    return published and spec["selector"].items() <= pod.labels.items()
