"""The errors of a device.

DeviceError
├── ChromiumMissingError
├── PushServiceError           the push service is unreachable or its response is invalid
│   └── UnknownDeviceError     the push service does not know this device
└── CannotShowError            the page, or its window, cannot be shown
"""


class DeviceError(Exception):
    """The device cannot continue; the message says why and what to do."""


class ChromiumMissingError(DeviceError):
    pass


class PushServiceError(DeviceError):
    pass


class UnknownDeviceError(PushServiceError):
    pass


class CannotShowError(DeviceError):
    pass
