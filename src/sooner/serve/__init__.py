"""The live service behind `sooner serve`: observations in and decisions out over HTTP, server-sent events and MQTT.

It adds no mathematics to `sooner.stream.LiveSeries`: it gathers what arrives, hands it over in one worker thread, and answers.
"""
