-- A jump to itself.
-- expect: timeout
::again::
goto again
