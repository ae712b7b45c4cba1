std = "lua54"
max_line_length = 120
exclude_files = { "tests/runner/fail/syntax_test.lua" } -- which is not Lua
stds.orrery_test = {
  read_globals = {
    "describe", "context", "it", "test", "pending", "before_each", "after_each", "before_all", "after_all", "expect",
    assert = { other_fields = true },
  },
}
files["tests/lua"] = {
  std = "lua54+orrery_test", globals = { "vim" }, max_line_length = false, ignore = { "431", "432", "512" },
}
files["tests/differential"] = { -- what it does wrong, it does on purpose
  globals = { "check", "once", "burn" }, max_line_length = false, only = { "011" },
}
files["tests/runner"] = { std = "lua54+orrery_test", globals = { "_" } }
files["types"] = { ignore = { "211", "212", "221", "241", "631" } }
files["examples/hosts"] = { read_globals = { "host", "compositor" }, max_line_length = false }
files["lua/module.lua"] = { globals = { "os" } }
files["examples/game"] = { read_globals = { "monster" } }
files["examples/plugins"] = { read_globals = { "host" } }
