#!/opt/python/bin/python
print("hello")
