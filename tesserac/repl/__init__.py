"""`tessera run` without a file: definitions, statements and expressions at a prompt, compiled and run one by one."""
