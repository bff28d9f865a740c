"""`procession manifest`: from what is asked for to the objects that Kubernetes is told to make."""
