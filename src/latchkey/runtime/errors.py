"""What a device cannot do, and what to do about it.

DeviceError
├── ChromiumMissingError
├── AlreadyRunningError
├── PushServiceError           the push service is away or answers something else
│   └── UnknownDeviceError     it is there, and does not know this device
└── CannotShowError            the page, or a window for it
"""

from __future__ import annotations


class DeviceError(Exception):
    """The device cannot go on; the message says why and what to do."""


class ChromiumMissingError(DeviceError):
    pass


class AlreadyRunningError(DeviceError):
    pass


class PushServiceError(DeviceError):
    pass


class UnknownDeviceError(PushServiceError):
    pass


class CannotShowError(DeviceError):
    pass
