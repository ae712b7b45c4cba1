-- Expressions and calls spread over many lines, which fail: the message names one of the lines.
-- bug: an error names the line of another subexpression; arithmetic up to 5.4.4, calls to 5.4.6
-- stock: names another line of the same statement
-- expect: ok
for source, lines in pairs {
  ["local a, b = {}, 1\nreturn a\n+\nb\n*\n2"] = 6,
  ["local a = {}\nreturn 2\n^\na\n-\n1"] = 6,
  ["local f = {}\nlocal g = f\n.x\n.y\n(\n1,\n2\n)"] = 8,
  ["local f\nf\n'argument'"] = 3,
} do
  local ok, message = pcall(assert(load(source, "=x")))
  local line = math.tointeger(tonumber(message:match("^x:(%d+): ")))
  assert(not ok and line >= 1 and line <= lines, message)
end
