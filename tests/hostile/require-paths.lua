-- require with paths, NULs, dots and huge names: only registered modules may be found.
-- expect: ok
for _, name in ipairs {
  "../../etc/passwd", "/etc/passwd", "....etc.passwd", "a/b", "a\\b", "orrery\0x", "\0", "", ".", "..", "os", "io", "debug", "package",
  "ffi", "lfs", "socket", ("x"):rep(1 << 18), "?", ";", "?.so;?",
} do
  local ok, module = pcall(require, name)
  assert(not ok or type(module) == "table" and module ~= nil, name)
  if ok then
    assert(not module.execute and not module.open and not module.loadlib and not module.sethook, name)
  end
end
assert(not pcall(require, nil))
assert(not pcall(require, {}))
