-- Writes the Test Anything Protocol, version 13: a line for each test, and details of a failure as
-- a YAML block below it.

local options_of = require "orrery.test.options"
local text_of = require "orrery.test.text"

local SKIPS = { pending = " # SKIP pending", skipped = " # SKIP" }

-- A name has no line breaks, and a hash would begin a directive.
local function clean(name)
  return (text_of.one_line(name:gsub("\\", "\\\\")):gsub("#", "\\#"))
end

-- Writes a text in YAML's double quotes, if it cannot be in a block.
local function quote(text)
  return '"' .. text_of.printable(text):gsub('[%c"\\]', function(c)
    return string.format("\\x%02x", c:byte())
  end) .. '"'
end

return function(write, options)
  local number = 0
  local format = {}
  write "TAP version 13\n"

  local function details(job, place, text, name)
    write "  ---\n"
    write("  message: " .. quote(text:match "^[^\n]*") .. "\n")
    write("  file: " .. quote(job.file) .. "\n")
    if place and place ~= "" then
      write("  at: " .. quote(place) .. "\n")
    end
    write("  repeat: " .. quote(options_of.repeat_command(options, job.file, name)) .. "\n")
    write "  details: |2\n"
    write(text_of.indent(text_of.printable(text), 4) .. "\n")
    write "  ...\n"
  end

  local function line(ok, name, directive)
    number = number + 1
    write(string.format("%s %d - %s%s\n", ok and "ok" or "not ok", number, clean(name), directive or ""))
  end

  function format.file(job)
    for text in text_of.printable(table.concat(job.output)):gmatch "[^\n]+" do
      write("# " .. text .. "\n")
    end
    write("# " .. job.file .. "\n")
    for _, result in ipairs(job.results) do
      line(result.status ~= "failed", result.name, SKIPS[result.status])
      if result.status == "failed" then
        details(job, result.place, result.text, result.name)
      end
    end
    if job.left_out > 0 then
      write("# " .. text_of.left_out(job.left_out) .. "\n")
    end
    if job.broken or job.ended then
      line(false, job.file)
      details(job, nil, job.broken or job.ended)
    end
  end

  function format.finish(totals)
    write(string.format("1..%d\n", number))
    write(string.format("# seed %d\n", options.seed))
    write(string.format("# %d passed, %d failed, %d pending, %d skipped\n", totals.passed, totals.failed,
      totals.pending, totals.skipped))
  end

  return format
end
