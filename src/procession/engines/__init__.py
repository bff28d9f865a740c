"""Groups over several machines: an engine gives nodes, an agent on each runs the node's ranks."""
