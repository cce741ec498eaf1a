"""What the runtime calls: the compiler behind `import tessera`."""
