"""Addresses and links of pods, and the packet filters of NetworkPolicies.

Every pod is a namespace of `ip netns` behind a veth pair; the stand-in routes
between them. Its own end is NODE, from which the kubelet's probes come.
"""

import ipaddress
import subprocess

NODE = "169.254.1.1"
DNS = "10.96.0.10"
FIRST_POD = ipaddress.ip_address("10.244.0.10")


def ip(*words):
    subprocess.run(["ip", *(str(word) for word in words)], check=True)


class Network:
    def __init__(self):
        self.next = FIRST_POD
        ip("link", "set", "lo", "up")
        ip("addr", "replace", f"{DNS}/32", "dev", "lo")
        with open("/proc/sys/net/ipv4/ip_forward", "w", encoding="ascii") as file:
            file.write("1")

    def add(self, name):
        """A namespace `name` with an address that no pod had before."""
        address = str(self.next)
        self.next += 1
        node_end = f"v{int(ipaddress.ip_address(address)) & 0xFFFF}"
        ip("netns", "add", name)
        ip("link", "add", node_end, "type", "veth", "peer", "name", "eth0",
           "netns", name)
        ip("addr", "add", f"{NODE}/32", "dev", node_end)
        ip("link", "set", node_end, "up")
        ip("route", "add", f"{address}/32", "dev", node_end)
        inside = ("-n", name)
        ip(*inside, "link", "set", "lo", "up")
        ip(*inside, "addr", "add", f"{address}/32", "dev", "eth0")
        ip(*inside, "link", "set", "eth0", "up")
        ip(*inside, "route", "add", NODE, "dev", "eth0")
        ip(*inside, "route", "add", "default", "via", NODE)
        return address, node_end

    def cut(self, node_end):
        """As when the node is lost: packets vanish, nobody is told."""
        ip("link", "set", node_end, "down")

    def remove(self, name):
        subprocess.run(["ip", "netns", "del", name], check=False)

    def filter(self, policies, pods):
        """Makes the kernel's filters those of `policies`. `pods` have address,
        labels, namespace and ports (name to number)."""
        rules = ["*filter", ":FORWARD ACCEPT", ":INPUT ACCEPT", ":OUTPUT ACCEPT",
                 ":EGRESS - [0:0]", ":INGRESS - [0:0]"]
        # Answers belong to connections that were let through when they began.
        for chain in ("FORWARD", "INPUT"):
            rules += [f"-A {chain} -p tcp --syn -j EGRESS",
                      f"-A {chain} -p udp -j EGRESS"]
        rules += _direction(policies, pods, "Egress", "INGRESS")
        rules += ["-A EGRESS -j INGRESS"]
        rules += _direction(policies, pods, "Ingress", "ACCEPT")
        # Whom no policy isolates.
        rules += ["-A INGRESS -j ACCEPT"]
        text = "\n".join([*rules, "COMMIT", ""])
        subprocess.run(["iptables-restore"], input=text, text=True, check=True)


def selects(selector, labels):
    if not selector.get("matchLabels", {}).items() <= labels.items():
        return False
    for wanted in selector.get("matchExpressions", []):
        assert wanted["operator"] == "In", wanted
        if labels.get(wanted["key"]) not in wanted["values"]:
            return False
    return True


def _is_peer(peer, pod, namespace):
    spaces = peer.get("namespaceSelector")
    if spaces is None:
        if pod.namespace != namespace:
            return False
    elif not selects(spaces, {"kubernetes.io/metadata.name": pod.namespace}):
        return False
    return selects(peer.get("podSelector", {}), pod.labels)


def _direction(policies, pods, direction, allowed):
    chain = direction.upper()
    own, other = ("-s", "-d") if direction == "Egress" else ("-d", "-s")
    rules = []
    for pod in pods:
        mine = [policy["spec"] for policy in policies
                if direction in policy["spec"]["policyTypes"]
                and selects(policy["spec"]["podSelector"], pod.labels)]
        for spec in mine:
            for rule in spec.get(direction.lower(), []):
                peers = rule["to" if direction == "Egress" else "from"]
                for peer in pods:
                    if not any(_is_peer(p, peer, pod.namespace) for p in peers):
                        continue
                    target = peer if direction == "Egress" else pod
                    for protocol, number in _ports(rule, target):
                        rules.append(
                            f"-A {chain} {own} {pod.address} {other} {peer.address} "
                            f"-p {protocol} --dport {number} -j {allowed}"
                        )
        # The node's own packets are the kubelet's; they pass as they do there.
        if mine:
            rules.append(f"-A {chain} {own} {pod.address} -j DROP")
    return rules


def _ports(rule, target):
    for port in rule["ports"]:
        number = target.ports.get(port["port"], port["port"])
        if isinstance(number, int):
            yield port["protocol"].lower(), number
