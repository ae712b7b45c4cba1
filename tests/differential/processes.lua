-- untrusted: there is neither io nor os.execute
-- Other processes, the environment, and what is left of os.

check("popen, reading", function()
  local p = io.popen "printf 'one\\ntwo\\n'"
  local r = {}
  for line in p:lines() do r[#r + 1] = line end
  return r, { p:close() }, io.type(p)
end, 3)

check("popen, writing", function()
  local p = io.popen("cat >/dev/null; exit 3", "w")
  local same = p:write("text\n", 5) == p
  return same, { p:close() }
end, 3)

check("popen, all at once", function()
  local p <close> = io.popen "seq 1 2000"
  local s = p:read "a"
  return #s, s:sub(-5)
end, 3)

check("popen, numbers", function()
  local p <close> = io.popen "seq 1 10"
  local sum = 0
  for n in p:lines "n" do sum = sum + n end
  return sum
end, 3)

check("popen, signals and statuses", function()
  return { io.popen("exit 7"):close() }, { io.popen("kill -9 $$"):close() }, { io.popen("true"):close() }
end, 3)

check("popen, wrong", function()
  return { pcall(io.popen) }, { pcall(io.popen, "true", "x") }, { pcall(io.popen, "true", "rw") }, { pcall(io.popen, {}) }
end)

check("popen, what is not there", function()
  local p = io.popen "exec 2>/dev/null; nonexistent-program"
  return p:read "a", { p:close() }
end, 3)

check("popen, two at once", function()
  local a <close>, b = io.popen "echo a", io.popen "echo b"
  local r = b:read "l" .. "l" .. a:read "l"
  b:close()
  return r
end, 3)

check("popen while it burns", function()
  local p <close> = io.popen "for i in 1 2 3 4 5 6 7 8 9 10; do echo $i; done"
  local r = {}
  for line in p:lines() do burn(5000) r[#r + 1] = line end
  return table.concat(r, ",")
end, 5)

check("popen cannot seek", function()
  local p <close> = io.popen "echo x"
  return (p:seek "set")
end)

check("execute", function()
  return { os.execute "true" }, { os.execute "exit 5" }, { os.execute "kill -15 $$" }, { os.execute() }, { os.execute "exec 2>/dev/null; nonexistent-program" }
end, 3)

check("getenv", function()
  return os.getenv "ORR_DIFFERENTIAL", os.getenv "NO_SUCH_VARIABLE", { pcall(os.getenv) }
end)

check("the environment of children", function()
  local p <close> = io.popen "echo $ORR_DIFFERENTIAL"
  return p:read "l"
end, 3)

check("setlocale", function()
  return os.setlocale(), os.setlocale(nil, "numeric"), os.setlocale("C"), os.setlocale("no_SUCH"), { pcall(os.setlocale, "C", "bad") }
end)

check("arguments", function() return arg[0], arg[1] ~= nil, type(arg[2]), arg[3], #arg, type(arg[-1]) end)

once("the script's own arguments", function() return select("#", table.unpack(arg)) end)

check("what os has", function()
  local names = {}
  for k in pairs(os) do names[#names + 1] = k end
  table.sort(names)
  return table.concat(names, " ")
end)

check("warn", function()
  return { pcall(warn) }, { pcall(warn, {}) }, (warn("@off"))
end)

once("exit from within pcall and a coroutine", function()
  local lua = os.getenv "ORR_INTERPRETER"
  local function status(code)
    local p = io.popen(lua .. " -e '" .. code .. "' 2>/dev/null")
    local text = p:read "a"
    return { text, p:close() }
  end
  return status "os.exit(3)", status "os.exit(true)", status "os.exit(false)", status "pcall(os.exit, 4)", status "coroutine.wrap(function() os.exit(5, true) end)()",
    status "local x <close> = setmetatable({}, { __close = function() print \"closed\" end }) os.exit(6, true)", status "error \"x\"", status "error {}", status "print(1) error()",
    status "io.write \"unflushed\" os.exit(0)", status "setmetatable({}, { __gc = function() print \"gc\" end }) os.exit(0, true)", status "return 5", status "local x <close> = 5"
end)
