-- Reports for people: a line for each file, its failures below it, and the totals. Colours only on
-- a terminal, and not if NO_COLOR is set.

local duration = ... -- writes milliseconds for people
local options_of = require "orrery.test.options"
local text_of = require "orrery.test.text"

local codes = { red = "31", green = "32", yellow = "33", dim = "2", bold = "1" }

return function(write, options, natives)
  local no_color = os.getenv "NO_COLOR"
  local colourful = options.color == "always"
    or options.color == "auto" and natives.is_terminal() and (not no_color or no_color == "")

  local function paint(colour, text)
    return colourful and "\27[" .. codes[colour] .. "m" .. text .. "\27[0m" or text
  end

  -- Colours the lines of a difference.
  local function paint_text(text)
    return (text:gsub("([^\n]*)", function(line)
      if line:find "^%- " then
        return paint("green", line)
      elseif line:find "^%+ " then
        return paint("red", line)
      end
    end))
  end

  local function tell_failure(job, name, place, text)
    write("  " .. paint("red", "FAILED") .. "  " .. paint("bold", text_of.one_line(name)))
    write(place and place ~= "" and paint("dim", "  (" .. place .. ")") .. "\n" or "\n")
    write(text_of.indent(paint_text(text_of.printable(text)), 4) .. "\n")
    local command = options_of.repeat_command(options, job.file, place and place ~= "" and name)
    write("    " .. paint("dim", "repeat: " .. command) .. "\n\n")
  end

  local format = {}

  function format.file(job)
    local output = table.concat(job.output)
    write(output)
    if output ~= "" and output:sub(-1) ~= "\n" then
      write "\n"
    end
    local failed = job.broken or job.ended
    for _, result in ipairs(job.results) do
      failed = failed or result.status == "failed"
    end
    local count = #job.results
    local mark = failed and paint("red", "FAIL") or paint("green", "ok  ")
    local about = string.format("(%d %s, %s)", count, count == 1 and "test" or "tests", duration(job.ms or 0))
    write(string.format("%s  %s  %s\n", mark, job.file, paint("dim", about)))
    for _, result in ipairs(job.results) do
      if result.status == "failed" then
        tell_failure(job, result.name, result.place, result.text)
      elseif result.status == "pending" then
        write("  " .. paint("yellow", "pending") .. " " .. text_of.one_line(result.name) .. "\n")
      elseif result.status == "skipped" then
        write("  " .. paint("yellow", "skipped") .. " " .. text_of.one_line(result.name) .. "\n")
      end
    end
    if job.left_out > 0 then
      write("  " .. paint("yellow", text_of.left_out(job.left_out)) .. "\n")
    end
    if job.broken or job.ended then
      tell_failure(job, job.file, nil, job.broken or job.ended)
    end
    if job.planned > count then
      write(string.format("  %s\n", paint("yellow", string.format("%d of its %d tests did not run", job.planned - count,
        job.planned))))
    end
  end

  -- The totals are on a line of their own, for programs that read it.
  function format.finish(totals, ms)
    if options.shuffle or options.shuffle_tasks or totals.failed > 0 then
      write(paint("dim", string.format("seed %d", options.seed)) .. "\n")
    end
    write(paint("dim", "in " .. duration(ms)) .. "\n")
    local sums = string.format("%d passed, %d failed", totals.passed, totals.failed)
    if totals.pending > 0 then
      sums = sums .. string.format(", %d pending", totals.pending)
    end
    if totals.skipped > 0 then
      sums = sums .. string.format(", %d skipped", totals.skipped)
    end
    write(paint(totals.failed > 0 and "red" or "green", sums) .. "\n")
  end

  return format
end
