"""A stand-in for a Kubernetes cluster, for tests of manifests with the real
programs: Jobs make pods, pods are processes in network namespaces with
addresses of their own that never come back, Services are names in a small DNS
server, NetworkPolicies are packet filters, probes are asked, what fails is
replaced after a back-off. There is one node, and no API server.

    with Cluster(objects, images={"gimbal": folder}, volumes=..., secrets=...) as c:
        c.wait(lambda: all(pod.ready for pod in c.pods()), 60, "all are ready")
        c.pods("gimbal-worker")[0].kill()

Call `enter_namespaces` first thing: everything happens in namespaces of the
process, which end with it.
"""
