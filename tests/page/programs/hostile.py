"""Writes what a page must survive: scripts, colours without end, bytes that are no UTF-8, a line of 10 MB."""

import sys

out = sys.stdout.buffer
out.write(b"<script>alert('log')</script><img src=x onerror=alert(1)>\n")
out.write(b"\x1b]8;;javascript:alert(2)\x07click\x1b]8;;\x07 \x1b]0;title\x07\n")
out.write(b"".join(b"\x1b[%d;%dmx" % (31 + i % 7, 41 + i % 5) for i in range(200_000)) + b"\x1b[0m\n")
out.write(b"bad utf-8: \xff\xfe\xc3( \xed\xa0\x80 \xf0\x9f end\n")
out.write(b"\x1b[31mred \x1b[1;38;5;208morange\x1b[0m plain \xe2\x80\xaeevil\n")
out.write(b"Z" * 10_000_000 + b"\n")
out.write(b"\x1b[" * 5000 + b"\n")
out.write(b"\x00\x01\x02 control\n")
for step in range(5):
    out.write(b"step=%d loss=%s\n" % (step, [b"1.5", b"nan", b"inf", b"1e308", b"-1e308"][step]))
out.write(b"the last line\n")
out.flush()
