"""Numbers, texts and lists as bytes, as in Kafka's protocol; flexible versions have compact lengths and tags."""

import struct


class Reader:
    """Reads the fields of a request."""

    def __init__(self, data):
        self._data, self._at, self.flexible = data, 0, False

    def number(self, form):
        (value,) = struct.unpack_from(">" + form, self._data, self._at)
        self._at += struct.calcsize(">" + form)
        return value

    def varint(self):
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def raw(self, length):
        self._at += length
        return self._data[self._at - length : self._at]

    def text(self):
        length = self.varint() - 1 if self.flexible else self.number("h")
        return None if length < 0 else self.raw(length).decode()

    def blob(self):
        length = self.number("i")
        return None if length < 0 else self.raw(length)

    def many(self, read):
        count = self.varint() - 1 if self.flexible else self.number("i")
        return None if count < 0 else [read() for _ in range(count)]

    def tags(self):
        for _ in range(self.varint() if self.flexible else 0):
            self.varint()
            self.raw(self.varint())


class Writer:
    """Writes the fields of a response."""

    def __init__(self, *, flexible):
        self._pieces, self.flexible = [], flexible

    @property
    def data(self):
        return b"".join(self._pieces)

    def number(self, form, *values):
        self._pieces.append(struct.pack(">" + form, *values))
        return self

    def varint(self, value):
        while value >= 0x80:
            self._pieces.append(bytes([value & 0x7F | 0x80]))
            value >>= 7
        self._pieces.append(bytes([value]))
        return self

    def text(self, text):
        data = b"" if text is None else text.encode()
        length = -1 if text is None else len(data)
        self.varint(length + 1) if self.flexible else self.number("h", length)
        self._pieces.append(data)
        return self

    def blob(self, data):
        self.number("i", len(data))
        self._pieces.append(data)
        return self

    def many(self, values, write):
        self.varint(len(values) + 1) if self.flexible else self.number("i", len(values))
        for value in values:
            write(value)
        return self

    def tags(self):
        return self.varint(0) if self.flexible else self
