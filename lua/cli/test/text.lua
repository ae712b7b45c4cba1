-- Text that any reader can take: what would move a cursor, and what is not UTF-8, is shown as an escape.

local text = {}

local function escape(c)
  return string.format("\\x%02x", c:byte())
end

---Control characters but line breaks and tabs are escaped; and all that is not ASCII, if the whole is not UTF-8.
function text.printable(given)
  given = given:gsub("[%z\1-\8\11-\31\127]", escape)
  if utf8.len(given) and not given:find "\xef\xbf[\xbe\xbf]" then -- two code points that XML forbids
    return given
  end
  return (given:gsub("[\x80-\xff]", escape))
end

---The same, in one line.
function text.one_line(given)
  return (text.printable(given):gsub("\n", "\\n"):gsub("\t", "\\t"))
end

---Every line that is not empty after so many spaces.
function text.indent(given, by)
  return (given:gsub("[^\n]+", (" "):rep(by) .. "%0"))
end

return text
