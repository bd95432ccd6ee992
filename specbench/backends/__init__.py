"""What a server product is: command, rules, logs, requests, replies; one folder a product."""
