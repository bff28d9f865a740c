print("a rank is here", flush=True)
