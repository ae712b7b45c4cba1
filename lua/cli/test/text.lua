-- Makes text printable: characters that would move a cursor, and bytes that are not UTF-8, are
-- shown as escapes.

local text = {}

local function escape(c)
  return string.format("\\x%02x", c:byte())
end

---Escapes control characters except line breaks and tabs; and everything that is not ASCII, if the
---text is not UTF-8.
function text.printable(given)
  given = given:gsub("[%z\1-\8\11-\31\127]", escape)
  -- Two code points that XML forbids.
  if utf8.len(given) and not given:find "\xef\xbf[\xbe\xbf]" then
    return given
  end
  return (given:gsub("[\x80-\xff]", escape))
end

---Makes text printable in one line.
function text.one_line(given)
  return (text.printable(given):gsub("\n", "\\n"):gsub("\t", "\\t"))
end

---Indents every line that is not empty.
function text.indent(given, by)
  return (given:gsub("[^\n]+", (" "):rep(by) .. "%0"))
end

---Says that tests did not run because others were defined with `only`.
function text.left_out(count)
  return string.format("it.only: %d other %s of this file did not run", count, count == 1 and "test" or "tests")
end

return text
