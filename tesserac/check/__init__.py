"""The checker: from the syntax tree to the typed program, with diagnostics. `infer.check_module` is its entry."""
