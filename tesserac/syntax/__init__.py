"""From text to AST: the lexer, the LALR parser of `grammar/tessera.lark`, errors people can act on."""
