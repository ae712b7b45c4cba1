std = "lua54"
max_line_length = 120
files["tests/lua"] = { globals = { "vim" }, max_line_length = false, ignore = { "431", "432", "512" } }
files["types"] = { ignore = { "211", "212", "221", "241", "631" } }
files["examples/hosts"] = { read_globals = { "host", "compositor" }, max_line_length = false }
